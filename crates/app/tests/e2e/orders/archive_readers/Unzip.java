import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.zip.ZipEntry;
import java.util.zip.ZipInputStream;

/** Unpacks the archive of the standard input into a folder. */
public class Unzip {
    public static void main(String[] arguments) throws IOException {
        try (ZipInputStream archive = new ZipInputStream(System.in)) {
            for (ZipEntry entry; (entry = archive.getNextEntry()) != null; ) {
                Path path = Path.of(arguments[0]).resolve(entry.getName());
                Files.createDirectories(path.getParent());
                Files.copy(archive, path);
            }
        }
    }
}

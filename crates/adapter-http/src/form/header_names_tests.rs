use super::*;

fn value(text: &[u8]) -> HeaderValue {
    HeaderValue::from_bytes(text).unwrap()
}

fn names_of(parameters: &str) -> Result<(String, Option<String>), Fault> {
    names(&value(format!("form-data; {parameters}").as_bytes()))
}

#[test]
fn file_name_is_the_one_that_the_client_means() {
    for (written, name) in [
        ("filename=\"a.pdf\"", "a.pdf"),
        ("FileName=a.pdf", "a.pdf"),
        ("filename=\"é.pdf\"", "é.pdf"),
        ("filename = \"a.pdf\" ;", "a.pdf"),
        // Browsers escape quotes and backslashes, or neither.
        ("filename=\"C:\\new\\deed.pdf\"", "C:\\new\\deed.pdf"),
        (r#"filename="a \"quoted\" \\ name.pdf""#, r#"a "quoted" \ name.pdf"#),
        ("x=\"filename=\\\"no.pdf\\\"; filename=\\\"no.pdf\"; filename=\"yes.pdf\"", "yes.pdf"),
        ("x=\"a\\\\\";filename=\"yes.pdf\"", "yes.pdf"),
        ("x-filename=\"no.pdf\"; \tfilename=\"yes.pdf\"", "yes.pdf"),
        // `filename*` comes first where it is valid.
        ("filename*=UTF-8''d%C3%A9ed.pdf", "déed.pdf"),
        ("filename=\"Gr__e.pdf\"; filename*=utf-8'de'Gr%C3%BC%C3%9Fe.pdf", "Grüße.pdf"),
        ("filename*=iso-8859-1''Gr%FC%DFe.pdf; filename=\"Gr__e.pdf\"", "Grüße.pdf"),
        ("filename=\"a.pdf\"; filename*=\"UTF-8''b.pdf\"", "b.pdf"),
        ("filename=\"a.pdf\"; filename*=UTF-8''%FF.pdf", "a.pdf"),
        ("filename=\"a.pdf\"; filename*=UTF-8''b%0.pdf", "a.pdf"),
        ("filename=\"a.pdf\"; filename*=UTF-8''b%00.pdf", "a.pdf"),
        ("filename=\"a.pdf\"; filename*=b.pdf", "a.pdf"),
        // Clients encode few characters, or too many.
        ("filename=\"a.pdf\"; filename*=UTF-8''Deed%20(1).pdf", "Deed (1).pdf"),
        (
            "filename*=UTF-8''Deed of Trust, a@b [1].pdf ; filename=\"a.pdf\"",
            "Deed of Trust, a@b [1].pdf",
        ),
        ("filename=\"a.pdf\"; filename*=", "a.pdf"),
        ("filename=\"a.pdf\"; filename*=UTF-8''b.pdf filename=\"c.pdf\"", "a.pdf"),
        ("filename=\"Gr%C3%BC%C3%9Fe%201.pdf\"", "Grüße 1.pdf"),
        ("filename=\"100%.pdf\"", "100%.pdf"),
        ("filename=\"50%AB.pdf\"", "50%AB.pdf"),
        ("filename=\"a%00.pdf\"", "a%00.pdf"),
        ("filename=\"a b%C3%BC.pdf\"", "a b%C3%BC.pdf"),
        ("filename=\"a %22b%22%0D%0A.pdf\"", "a \"b\"\r\n.pdf"),
        // Encoded words.
        ("filename=\"=?utf-8?B?R3LDvMOfZS5wZGY=?=\"", "Grüße.pdf"),
        ("filename=\"=?UTF-8?Q?Gr=C3=BC=C3=9Fe_1%.pdf?=\"", "Grüße 1%.pdf"),
        ("filename=\"=?iso-8859-1*de?q?Gr=FC=DFe?=.pdf\"", "Grüße.pdf"),
        ("filename=\"=?utf-8?q?Gr=C3?= \t=?utf-8?q?=BC=C3=9Fe?= 2.pdf\"", "Grüße 2.pdf"),
        ("filename=\"=?utf-8?B?R3LDvMOfZS5wZGY=?=\"; filename*=utf-8''b.pdf", "b.pdf"),
        ("filename=\"=?utf-8?Q?=FF?=.pdf\"", "=?utf-8?Q?=FF?=.pdf"),
        ("filename=\"=?windows-1252?Q?M=FCller_=96_Deed.pdf?=\"", "Müller – Deed.pdf"),
        ("filename=\"=?utf-8?B?R3LDvMOfZS5wZGY?=\"", "Grüße.pdf"),
        ("filename=\"=?latin1?Q?Gr=FC.pdf?=\"", "Grü.pdf"),
        ("filename=\"=?UTF8?Q?Gr=C3=BC.pdf?=\"", "Grü.pdf"),
        ("filename=\"=?EUC-KR?B?sOi+4LytLnBkZg==?=\"", "계약서.pdf"),
        ("filename=\"=?iso-2022-jp?B?GyRCN0BMcxsoQi5wZGY=?=\"", "契約.pdf"),
        ("filename=\"=?koi8-r?Q?=F0?=.pdf\"", "П.pdf"),
        ("filename=\"=?x-other?Q?=F0?=.pdf\"", "=?x-other?Q?=F0?=.pdf"),
        ("filename=\"=?utf-8?Q?=00?=.pdf\"", "=?utf-8?Q?=00?=.pdf"),
        ("filename=\"=?utf-8?B?!?=.pdf\"", "=?utf-8?B?!?=.pdf"),
    ] {
        let (field, file_name) = names_of(&format!("name=\"documents\"; {written}")).unwrap();
        assert_eq!((field.as_str(), file_name.as_deref()), ("documents", Some(name)), "{written}");
    }
}

/// Others read such a part in another way.
#[test]
fn disposition_with_two_readings_is_rejected() {
    for (written, fault) in [
        ("name=\"documents\"=?x", "has something behind the value of a parameter"),
        ("name=\"documents\" x; filename=a", "has something behind the value of a parameter"),
        ("name=documents filename=a.pdf", "has something behind the value of a parameter"),
        ("name=\"docu\\ments\"", "has a backslash in its name"),
        (r#"name="a\"; name=\"documents""#, "has a backslash in its name"),
        ("name=\"a\"; name=\"b\"", "has more than one name"),
        ("filename=\"a.pdf\"", "has no name"),
        ("name=\"a\"; filename=\"a.pdf\"; filename=\"b.pdf\"", "has more than one file name"),
        ("name=\"a\"; filename*=UTF-8''a; filename*=UTF-8''b", "has more than one file name"),
        ("name=\"a\"; filename*=UTF-8''a%00.pdf", "has a filename* that is not valid"),
        ("name=\"a\"; filename*=UTF-8''a%FF.pdf", "has a filename* that is not valid"),
        (
            "name=\"a\"; filename*0=\"a\"; filename*1=\".pdf\"",
            "has a name in pieces or with a charset, which forms do not have",
        ),
        (
            "name=\"a\"; name*=UTF-8''documents",
            "has a name in pieces or with a charset, which forms do not have",
        ),
        ("name=\"a\"; filename=\"a.pdf", "has a quote without its end"),
        ("name=a=b", "has a value that needs quotes around it"),
        ("name", "has a parameter without a value"),
        ("name=\"a\"; x y=\"1\"", "has a parameter without a value"),
    ] {
        assert_eq!(names_of(written), Err(fault), "{written}");
    }
    assert_eq!(names(&value(b"attachment; name=\"a\"")), Err("is not form-data"));
    assert_eq!(
        names(&value(b"form-data; name=\"a\"; filename=\"d\xE9ed.pdf\"")),
        Err("has a header parameter that is not UTF-8")
    );
}

#[test]
fn boundary_is_read_as_other_readers_do() {
    for (written, expected) in [
        ("boundary=b", Ok("b")),
        (" ;charset=utf-8; Boundary=\"a b\"", Ok("a b")),
        ("boundary=\"----=_Part_1:2/3\"", Ok("----=_Part_1:2/3")),
        ("boundary=*****", Ok("*****")),
        ("boundary=", Ok("")),
        ("charset=utf-8", Err("has no boundary")),
        ("boundary=a; boundary=b", Err("has more than one boundary")),
        ("boundary=----=_Part_1:2/3?; charset=utf-8", Ok("----=_Part_1:2/3?")),
        ("boundary=a@b", Err("has a value that needs quotes around it")),
        ("charset=a=b; boundary=b", Err("has a value that needs quotes around it")),
        ("boundary=\"b \"", Err("has a boundary with a blank at its end")),
        (r#"boundary="b\"""#, Err("has a boundary with a backslash or a quote")),
        ("boundary=a; boundary*=utf-8''b", Err("has a boundary in pieces or with a charset")),
        ("boundary=b\u{e9}", Err("has a boundary that is not ASCII")),
        ("boundary=a; boundary*0=b", Err("has a boundary in pieces or with a charset")),
    ] {
        let found = boundary(&value(format!("multipart/form-data ;{written}").as_bytes()));
        assert_eq!(found.as_deref(), expected.as_ref().map(|it| *it), "{written}");
    }
}

//! Charts of figures over time.

use std::path::Path;

use plotters::prelude::*;

/// One figure. The scale begins at zero.
pub struct Panel {
    pub title: &'static str,
    pub points: Vec<(f64, f64)>,
}

const WIDTH: u32 = 900;
const HEIGHT: u32 = 180;

/// Draws panels below each other as SVG.
pub fn draw(path: &Path, time: &str, panels: &[Panel]) {
    let root = SVGBackend::new(path, (WIDTH, HEIGHT * u32::try_from(panels.len()).unwrap()))
        .into_drawing_area();
    root.fill(&WHITE).unwrap();
    for (area, panel) in root.split_evenly((panels.len(), 1)).iter().zip(panels) {
        let max = |of: fn(&(f64, f64)) -> f64| panel.points.iter().map(of).fold(0.0, f64::max);
        let (end, top) = (max(|point| point.0), max(|point| point.1).max(1.0) * 1.1);
        let mut chart = ChartBuilder::on(area)
            .caption(panel.title, ("sans-serif", 14))
            .margin(8)
            .x_label_area_size(28)
            .y_label_area_size(48)
            .build_cartesian_2d(0.0..end, 0.0..top)
            .unwrap();
        chart
            .configure_mesh()
            .x_desc(time)
            .y_labels(5)
            .light_line_style(TRANSPARENT)
            .draw()
            .unwrap();
        chart.draw_series(LineSeries::new(panel.points.iter().copied(), BLUE)).unwrap();
    }
    root.present().unwrap();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_panel_has_a_title_and_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("panels.svg");
        let panel = |title| Panel { title, points: vec![(0.0, 1.0), (1.0, 3.0), (2.0, 2.0)] };
        draw(&path, "minutes", &[panel("memory"), panel("threads")]);
        let svg = std::fs::read_to_string(path).unwrap();
        assert!(svg.contains("memory") && svg.contains("threads"));
        assert_eq!(svg.matches("stroke=\"#0000FF\"").count(), 2, "{svg}");
    }
}

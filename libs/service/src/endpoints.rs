//! Tells a launcher where a service listens, when ports were chosen at start.

use std::io;
use std::path::{Path, PathBuf};

/// Writes `endpoints` to `path`, so that a reader sees the whole or nothing.
///
/// # Errors
/// When the folder can't be written to.
pub fn write(path: &Path, endpoints: &serde_json::Value) -> io::Result<()> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}", std::process::id()));
    let draft = PathBuf::from(draft);
    std::fs::write(&draft, format!("{endpoints:#}\n"))?;
    std::fs::rename(&draft, path).inspect_err(|_| drop(std::fs::remove_file(&draft)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_replaced_whole_and_leaves_no_draft() {
        let folder = std::env::temp_dir().join(format!("escapement-endpoints-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("endpoints.json");
        write(&path, &serde_json::json!({"http": "old"})).expect("written");
        write(&path, &serde_json::json!({"http": "http://127.0.0.1:1"})).expect("replaced");
        let text = std::fs::read_to_string(&path).expect("readable");
        let files = std::fs::read_dir(&folder).expect("a folder").count();
        std::fs::remove_dir_all(&folder).expect("removed");
        assert_eq!(text.parse::<serde_json::Value>().expect("JSON")["http"], "http://127.0.0.1:1");
        assert_eq!(files, 1);
    }
}

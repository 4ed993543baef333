//! Lets a command that is built with a ready-made RocksDB (`ROCKSDB_LIB_DIR`) find it when it runs:
//! where it was, or beside the command.

fn main() {
    println!("cargo:rerun-if-env-changed=ROCKSDB_LIB_DIR");
    let linked = std::env::var_os("CARGO_FEATURE_ROCKSDB").is_some();
    if let (true, Ok(folder)) = (linked, std::env::var("ROCKSDB_LIB_DIR")) {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}:$ORIGIN");
    }
}

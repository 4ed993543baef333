//! Calls of a function, answered in the process.

use super::*;
use crate::functions::register;
use onefold_connector::{CallContent, CallKeys};
use onefold_types::{CallKey, Mark, Published, QueryId};
use std::sync::Mutex;

/// Address, body and key.
type Asked = (String, Option<String>, Option<CallKey>);

/// Answers with what it was asked.
#[derive(Debug, Clone, Default)]
struct Echo {
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl OutsideCalls for Echo {
    fn caller(
        &self,
        options: &BTreeMap<String, String>,
    ) -> onefold_types::Result<Arc<dyn OutsideCaller>> {
        if options.contains_key("wrong") {
            return Err(Error::invalid("http_call has no option wrong"));
        }
        Ok(Arc::new(self.clone()))
    }
}

#[async_trait]
impl OutsideCaller for Echo {
    fn content(&self, url: &str, body: Option<&str>) -> CallContent {
        CallContent::of(&[url.as_bytes(), body.unwrap_or_default().as_bytes()])
    }

    async fn call(
        &self,
        url: &str,
        body: Option<&str>,
        key: Option<CallKey>,
    ) -> onefold_types::Result<Option<Reply>> {
        self.asked.lock().unwrap().push((url.to_owned(), body.map(str::to_owned), key));
        let headers = [("x".to_owned(), "y".to_owned())].into();
        let body = format!("{url}:{}", body.unwrap_or("no body"));
        Ok(Some(Reply { status: 201, headers, body, at_ms: 0 }))
    }

    fn at_once(&self) -> usize {
        4
    }
}

/// Remembers in the process.
#[derive(Debug)]
struct Remembered {
    known: Mutex<BTreeMap<CallKey, Reply>>,
    keys: CallKeys,
}

#[async_trait]
impl BatchEffects for Remembered {
    fn next_key(&self, content: CallContent) -> CallKey {
        self.keys.next(content)
    }

    fn recorded(&self, key: CallKey) -> Option<Reply> {
        self.known.lock().unwrap().get(&key).cloned()
    }

    async fn record(&self, key: CallKey, reply: Reply) -> onefold_types::Result<()> {
        self.known.lock().unwrap().insert(key, reply);
        Ok(())
    }

    async fn flush(&self) -> onefold_types::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct Log(Arc<Remembered>);

#[async_trait]
impl EffectsLog for Log {
    async fn batch(&self, _: BatchId) -> onefold_types::Result<Arc<dyn BatchEffects>> {
        Ok(Arc::clone(&self.0) as _)
    }

    async fn newest_mark(&self) -> onefold_types::Result<Option<Published>> {
        Ok(None)
    }

    async fn publish(
        &self,
        published: Published,
        _: Vec<serde_json::Value>,
    ) -> onefold_types::Result<Published> {
        Ok(published)
    }

    async fn note_refused(&self, _: Mark, _: Vec<serde_json::Value>) -> onefold_types::Result<()> {
        Ok(())
    }
}

fn session(echo: &Echo) -> SessionContext {
    // As the engine's sessions are.
    let mut config = SessionConfig::new();
    config.options_mut().optimizer.enable_leaf_expression_pushdown = false;
    let context = SessionContext::new_with_config(config);
    register(&context).unwrap();
    use_calls(&context, Arc::new(echo.clone())).unwrap();
    context
}

async fn rows(echo: &Echo, sql: &str) -> Result<Vec<String>> {
    let batches = session(echo).sql(sql).await?.collect().await?;
    let text = arrow::util::pretty::pretty_format_batches(&batches)?.to_string();
    let lines = text.lines().filter(|line| line.starts_with('|')).skip(1);
    Ok(lines.map(|line| line.trim_matches(['|', ' ']).trim().to_owned()).collect())
}

#[tokio::test]
async fn each_row_is_called_for_once_whatever_is_taken_of_the_reply() {
    let echo = Echo::default();
    let sql = "SELECT r.status || r.body AS t FROM (SELECT http_call(u, b) AS r FROM (VALUES \
               ('u1', 'b1'), ('u2', NULL), (NULL, 'b3'), ('u1', 'b1')) AS v(u, b))";
    assert_eq!(rows(&echo, sql).await.unwrap(), ["201u1:b1", "201u2:no body", "", "201u1:b1"]);
    let asked = echo.asked.lock().unwrap();
    assert_eq!(asked.len(), 3, "{asked:?}");
    assert!(asked.iter().all(|(_, _, key)| key.is_none()), "{asked:?}");
}

#[tokio::test]
async fn a_filter_on_the_reply_and_headers_work() {
    let echo = Echo::default();
    let sql = "SELECT r.headers['x'] AS h, r.body AS b FROM (SELECT http_call(u, 'q') AS r FROM (VALUES \
               ('a'), ('b')) AS v(u)) WHERE r.body = 'b:q'";
    let found = rows(&echo, sql).await;
    let found = found.unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("b:q"), "{found:?}");
    assert_eq!(echo.asked.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn a_wrong_option_is_told() {
    let sql = "SELECT http_call('u', 'b', map_from_arrays(make_array('wrong'), make_array('1')))";
    let error = rows(&Echo::default(), sql).await.unwrap_err();
    assert!(failure::planning(error).to_string().contains("option wrong"));
}

#[tokio::test]
async fn what_is_remembered_is_not_asked_again_and_equal_calls_are_several() {
    let echo = Echo::default();
    let remembered = |known| {
        let keys = CallKeys::new(QueryId(Default::default()), BatchId(3));
        Arc::new(Remembered { known: Mutex::new(known), keys })
    };
    let run = async |log: &Arc<Remembered>, bodies: &[&str]| {
        let mut replies = Vec::new();
        for body in bodies {
            let found = reply(&echo, Some(log.as_ref()), Some("u"), Some(body)).await;
            replies.push(found.unwrap().unwrap().body);
        }
        replies
    };
    let first = remembered(BTreeMap::new());
    run(&first, &["a", "b", "a"]).await;
    assert_eq!(echo.asked.lock().unwrap().len(), 3);
    let known = first.known.lock().unwrap().clone();
    assert_eq!(known.len(), 3);
    // In another order, with one more.
    let again = remembered(known);
    assert_eq!(run(&again, &["a", "a", "c", "b"]).await, ["u:a", "u:a", "u:c", "u:b"]);
    assert_eq!(echo.asked.lock().unwrap().len(), 4);
    let log = Log(again);
    let batch = log.batch(BatchId(3)).await.unwrap();
    assert!(reply(&echo, Some(batch.as_ref()), None, Some("x")).await.unwrap().is_none());
}

import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.StreamingQuery;

/** The program of a tutorial, in Java with Spark's own JVM client. */
public class Tutorial {
    public static void main(String[] args) throws Exception {
        String remote = System.getenv("SPARK_REMOTE");
        SparkSession spark = SparkSession.builder().appName("ExactlyOnce").remote(remote).getOrCreate();
        Dataset<Row> stream = spark.readStream().format("rate").load();
        StreamingQuery query =
                stream.writeStream().format("parquet").option("checkpointLocation", "checkpoints").start("table");
        while (spark.read().parquet("table").count() < 3) {
            query.awaitTermination(500);
        }
        query.stop();
        StringBuilder values = new StringBuilder();
        List<Row> rows = spark.read().parquet("table").select("value").orderBy("value").collectAsList();
        for (Row row : rows) {
            values.append(values.isEmpty() ? "" : ", ").append(row.getLong(0));
        }
        long range = spark.range(10).count();
        System.out.println(
                "{\"active\": " + query.isActive() + ", \"range\": " + range + ", \"values\": [" + values + "]}");
        spark.stop();
    }
}

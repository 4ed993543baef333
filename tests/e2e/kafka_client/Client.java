import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's own client for tests: it shares no code with Onefold. Takes commands from standard input,
 * one a line, its parts split by tabs, and answers each with lines of which the last begins with
 * `ok` or `failed`. Bytes are base64; `-` stands for null.
 *
 * create TOPIC PARTITIONS [NAME=VALUE]…   grow TOPIC PARTITIONS   delete TOPIC   open
 * read TOPIC read_committed|read_uncommitted
 *     a line a record: partition, offset, key, value, timestamp, then name and value of each header
 * produce TOPIC TRANSACTIONAL_ID|- commit|abort|leave COUNT, then COUNT lines:
 *     partition, key, value, timestamp, then name and value of each header
 */
public final class Client {
    private final Properties common = new Properties();
    private final Admin admin;
    private final BufferedReader input =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    private final StringBuilder answer = new StringBuilder();
    private final List<KafkaProducer<byte[], byte[]>> left = new ArrayList<>();
    private KafkaProducer<byte[], byte[]> plain;

    private Client(String bootstrap) {
        common.put("bootstrap.servers", bootstrap);
        admin = Admin.create(common);
    }

    public static void main(String[] arguments) throws IOException {
        Client client = new Client(arguments[0]);
        String line;
        while ((line = client.input.readLine()) != null) {
            client.answer.setLength(0);
            String last;
            try {
                client.obey(line.split("\t", -1));
                last = "ok";
            } catch (Exception problem) {
                Throwable cause = problem instanceof ExecutionException ? problem.getCause() : problem;
                last = "failed " + cause.toString().replace('\n', ' ');
            }
            System.out.println(client.answer + last);
            System.out.flush();
        }
        System.exit(0); // not waiting for transactions that were left open
    }

    private void obey(String[] parts) throws Exception {
        switch (parts[0]) {
            case "create" -> create(parts);
            case "grow" -> done(admin.createPartitions(
                    Map.of(parts[1], NewPartitions.increaseTo(Integer.parseInt(parts[2])))).all());
            case "delete" -> done(admin.deleteTopics(List.of(parts[1])).all());
            case "open" -> {
                for (TransactionListing one : admin.listTransactions().all().get()) {
                    answer.append(one.transactionalId()).append('\t').append(one.state()).append('\n');
                }
            }
            case "read" -> read(parts[1], parts[2]);
            case "produce" -> produce(parts);
            default -> throw new IllegalArgumentException("unknown command " + parts[0]);
        }
    }


    private static void done(Future<?> act) throws Exception {
        act.get();
    }

    private void create(String[] parts) throws Exception {
        Map<String, String> settings = new HashMap<>();
        for (String setting : Arrays.asList(parts).subList(3, parts.length)) {
            String[] pair = setting.split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        NewTopic topic = new NewTopic(parts[1], Optional.of(Integer.parseInt(parts[2])), Optional.empty());
        done(admin.createTopics(List.of(topic.configs(settings))).all());
    }

    private void read(String topic, String isolation) {
        Properties settings = new Properties();
        settings.putAll(common);
        settings.put("isolation.level", isolation);
        settings.put("enable.auto.commit", "false");
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
            List<TopicPartition> partitions = new ArrayList<>();
            consumer.partitionsFor(topic)
                    .forEach(info -> partitions.add(new TopicPartition(topic, info.partition())));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            // Under read_committed the end is the last stable offset.
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            while (partitions.stream().anyMatch(it -> consumer.position(it) < ends.get(it))) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    if (record.offset() < ends.get(new TopicPartition(topic, record.partition()))) {
                        show(record);
                    }
                }
            }
        }
    }

    private void show(ConsumerRecord<byte[], byte[]> record) {
        answer.append(record.partition()).append('\t').append(record.offset()).append('\t');
        answer.append(text(record.key())).append('\t').append(text(record.value())).append('\t');
        answer.append(record.timestamp());
        for (Header header : record.headers()) {
            answer.append('\t').append(header.key()).append('\t').append(text(header.value()));
        }
        answer.append('\n');
        // A topic may hold more than memory does.
        if (answer.length() > 65_536) {
            System.out.print(answer);
            answer.setLength(0);
        }
    }

    private void produce(String[] parts) throws Exception {
        boolean transactional = !parts[2].equals("-");
        KafkaProducer<byte[], byte[]> producer = transactional ? producer(parts[2]) : plainProducer();
        if (transactional) {
            producer.initTransactions();
            producer.beginTransaction();
        }
        List<Future<?>> sent = new ArrayList<>();
        for (int count = Integer.parseInt(parts[4]); count > 0; count--) {
            String[] row = input.readLine().split("\t", -1);
            Integer partition = row[0].equals("-") ? null : Integer.valueOf(row[0]);
            Long timestamp = row[3].equals("-") ? null : Long.valueOf(row[3]);
            ProducerRecord<byte[], byte[]> record =
                    new ProducerRecord<>(parts[1], partition, timestamp, bytes(row[1]), bytes(row[2]));
            for (int header = 4; header + 1 < row.length; header += 2) {
                record.headers().add(row[header], bytes(row[header + 1]));
            }
            sent.add(producer.send(record));
        }
        producer.flush();
        for (Future<?> one : sent) {
            one.get();
        }
        switch (parts[3]) {
            case "abort" -> producer.abortTransaction();
            case "leave" -> left.add(producer);
            default -> {
                if (transactional) {
                    producer.commitTransaction();
                }
            }
        }
        if (transactional && !parts[3].equals("leave")) {
            producer.close();
        }
    }

    private KafkaProducer<byte[], byte[]> plainProducer() {
        if (plain == null) {
            plain = producer(null);
        }
        return plain;
    }

    private KafkaProducer<byte[], byte[]> producer(String transactionalId) {
        Properties settings = new Properties();
        settings.putAll(common);
        settings.put("linger.ms", "0");
        if (transactionalId != null) {
            settings.put("transactional.id", transactionalId);
        }
        ByteArraySerializer bytes = new ByteArraySerializer();
        return new KafkaProducer<>(settings, bytes, bytes);
    }

    private static String text(byte[] bytes) {
        return bytes == null ? "-" : Base64.getEncoder().encodeToString(bytes);
    }

    private static byte[] bytes(String text) {
        return text.equals("-") ? null : Base64.getDecoder().decode(text);
    }
}

package enrich.delta;

import io.delta.storage.S3SingleDriverLogStore;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.Path;

/**
 * Delta's log store for S3, with commits that several drivers may make at the same time.
 *
 * <p>A commit is a PUT with the header {@code If-None-Match: *}, which the server refuses when the file is there. Delta
 * then looks at the other commit and tries the next version. Hadoop's S3A has such writes since 3.4.2
 * (HADOOP-19256); an older one refuses the option, and nothing is written.
 */
public class S3ConditionalLogStore extends S3SingleDriverLogStore {
  private static final String CONDITIONAL = "fs.option.create.conditional.overwrite";

  public S3ConditionalLogStore(Configuration initHadoopConf) {
    super(initHadoopConf);
  }

  @Override
  public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration hadoopConf)
      throws IOException {
    if (overwrite) {
      super.write(path, actions, overwrite, hadoopConf);
      return;
    }
    FSDataOutputStreamBuilder<?, ?> builder = path.getFileSystem(hadoopConf).createFile(path);
    builder.create().recursive().must(CONDITIONAL, true);
    FSDataOutputStream stream = builder.build();
    try {
      while (actions.hasNext()) {
        stream.write((actions.next() + "\n").getBytes(StandardCharsets.UTF_8));
      }
    } catch (IOException | RuntimeException | Error failure) {
      stream.abort(); // closing would make a commit of what is there so far
      throw failure;
    }
    try {
      stream.close();
    } catch (IOException failure) {
      if (isRefused(failure)) {
        throw (IOException) new FileAlreadyExistsException(path.toString()).initCause(failure);
      }
      throw failure;
    }
  }

  /** By name: the classes of S3A may be known to another class loader than this one. */
  private static boolean isRefused(Throwable failure) {
    for (Throwable each = failure; each != null; each = each.getCause()) {
      if (each.getClass().getName().equals("org.apache.hadoop.fs.s3a.RemoteFileChangedException")) {
        return true;
      }
    }
    return false;
  }
}

import { createWriteStream, type WriteStream } from 'node:fs'

type Options = Exclude<Parameters<typeof createWriteStream>[1], string | undefined>

/**
 * Runs `work` with a stream into a file. Settles only when the file is closed, whatever happened. A stream that fails
 * while its file is being opened creates the file afterwards, so a caller that removed it earlier would leave it
 * behind.
 */
export async function withWriteStream<T>(
  path: string,
  options: Options,
  work: (out: WriteStream) => Promise<T>
): Promise<T> {
  const out = createWriteStream(path, options)
  // If it is destroyed in the middle of a write, it fails once more when nobody listens.
  out.on('error', () => {})
  try {
    return await work(out)
  } finally {
    if (!out.closed) await new Promise<void>(closed => void out.once('close', () => closed()).destroy())
  }
}

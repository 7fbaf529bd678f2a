import { Buffer } from 'node:buffer'
import { ZipFile } from 'yazl'

/** The time of all files, so that two zips of the same contents are the same however much later the second is made. */
const mtime = new Date()

/** What is smaller is stored, as `zip` does: it would not become smaller, and costs a compressor of 256 KB. */
export const compressedBytes = 64

/** Returns a zip of these files: path → text or bytes. */
export async function zipOf(files: Record<string, string | Uint8Array>): Promise<Buffer> {
  const zip = new ZipFile()
  for (const [path, content] of Object.entries(files)) {
    const bytes = Buffer.from(content)
    if (path.endsWith('/')) zip.addEmptyDirectory(path, { mtime })
    else zip.addBuffer(bytes, path, { mtime, compress: bytes.length >= compressedBytes })
  }
  zip.end()
  const chunks: Buffer[] = []
  for await (const chunk of zip.outputStream) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}

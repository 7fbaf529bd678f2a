import { createWriteStream } from 'node:fs'
import { pipeline } from 'node:stream/promises'
import { Readable } from 'node:stream'
import { ZipFile } from 'yazl'
import { compressedBytes } from './zip.js'

/** The time of all files: two deployments of the same contents differ in nothing, whenever they are made. */
const mtime = new Date()

/** Returns a zip of path → content. A path that ends with `.sh` is executable. */
export async function zipOf(files: Record<string, string | Buffer>): Promise<Buffer> {
  const zip = new ZipFile()
  for (const [path, content] of Object.entries(files)) {
    const [bytes, mode] = [Buffer.from(content), path.endsWith('.sh') ? 0o100755 : 0o100644]
    zip.addBuffer(bytes, path, { mtime, mode, compress: bytes.length >= compressedBytes })
  }
  zip.end()
  const chunks: Buffer[] = []
  for await (const chunk of zip.outputStream) chunks.push(Buffer.from(chunk as Uint8Array))
  return Buffer.concat(chunks)
}

/** Writes the same to a file. */
export async function writeZipOf(path: string, files: Record<string, string | Buffer>): Promise<void> {
  await pipeline(Readable.from([await zipOf(files)]), createWriteStream(path))
}

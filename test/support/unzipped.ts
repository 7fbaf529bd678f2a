import { promisify } from 'node:util'
import { gunzipSync } from 'node:zlib'
import * as yauzl from 'yauzl'

/** Returns all text in these bytes: of a zip its names and contents, also of the zips in it. */
export async function unzippedText(bytes: Buffer): Promise<string> {
  if (bytes[0] === 0x1f && bytes[1] === 0x8b) return unzippedText(gunzipSync(bytes))
  if (!isZip(bytes)) return bytes.toString('latin1')
  const zip = await new Promise<yauzl.ZipFile>((resolve, reject) =>
    yauzl.fromBuffer(bytes, { lazyEntries: true }, (error, opened) => (error ? reject(error) : resolve(opened)))
  )
  const open = promisify(zip.openReadStream.bind(zip)) as (entry: yauzl.Entry) => Promise<NodeJS.ReadableStream>
  let text = zip.comment
  for (;;) {
    const entry = await nextOf(zip)
    if (entry === null) return text
    const chunks: Buffer[] = []
    for await (const chunk of await open(entry)) chunks.push(chunk as Buffer)
    text += `\n${entry.fileName}\n${await unzippedText(Buffer.concat(chunks))}`
  }
}

/** Returns whether these bytes begin as a zip does. */
export function isZip(bytes: Buffer): boolean {
  return bytes.toString('latin1', 0, 4) === 'PK\x03\x04'
}

function nextOf(zip: yauzl.ZipFile): Promise<yauzl.Entry | null> {
  return new Promise((resolve, reject) => {
    zip
      .removeAllListeners()
      .once('entry', resolve)
      .once('error', reject)
      .once('end', () => resolve(null))
    zip.readEntry()
  })
}

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Test } from 'tap'
import { createEntryReader, maxWholeBytes } from '../../../lib/core/archive/entry-data.js'
import { openArchive } from '../../../lib/core/archive/read.js'
import type { LastSource, ZipSource } from '../../../lib/core/archive/source.js'

const mtimeMs = Date.parse('2026-01-02T03:04:06Z')

/** The behaviour of both writers for files that are appended to, for listeners, and for the last entry. */
export async function packsWhatGrows(
  t: Test,
  zipTo: (path: string, sources: ZipSource[], options: { last: LastSource }) => Promise<unknown>
): Promise<void> {
  const directory = t.testdir({})
  for (const size of [0, 10, 100_000, 20 * 1024 * 1024 + 3]) {
    const grown = join(directory, 'grown.log')
    const text = Buffer.alloc(size + 5000, 'line\n')
    await writeFile(grown, text)
    // Sources may be read concurrently.
    const heard: { log: Buffer[]; text: Buffer[] } = { log: [], text: [] }
    const listen =
      (to: Buffer[]) =>
      (piece: Uint8Array): void =>
        void to.push(Buffer.from(piece))
    const all = (): Buffer => Buffer.concat([...heard.log, ...heard.text])
    const growing: ZipSource = {
      path: 'a.log',
      kind: 'file',
      source: grown,
      bytes: size,
      mode: 0o600,
      mtimeMs,
      isGrowing: true,
      onRead: listen(heard.log)
    }
    const given = {
      ...growing,
      path: 'b.txt',
      source: Buffer.from('told, too'),
      bytes: 9,
      isGrowing: false,
      onRead: listen(heard.text)
    }
    const last = { path: 'last.txt', mode: 0o600, mtimeMs, contents: () => Buffer.from(`${all().length} bytes`) }
    const zip = join(directory, 'x.zip')
    await zipTo(zip, [growing, given], { last })
    t.ok(all().equals(Buffer.concat([text.subarray(0, size), Buffer.from('told, too')])))
    const archive = await openArchive(zip, { maxEntries: 9, maxExtractedBytes: 1e9 })
    t.strictSame(
      archive.entries.map(({ path, size }) => [path, size]),
      [
        ['a.log', size],
        ['b.txt', 9],
        ['last.txt', `${size + 9} bytes`.length]
      ]
    )
    const pieces: Buffer[] = []
    const reader = createEntryReader(archive)
    for (const entry of archive.entries) {
      if (entry.size <= maxWholeBytes) pieces.push(Buffer.from(reader.readWhole(entry)))
      else await reader.readPieces(entry, piece => void pieces.push(Buffer.from(piece)))
    }
    archive.close()
    t.ok(
      Buffer.concat(pieces).equals(Buffer.concat([text.subarray(0, size), Buffer.from(`told, too${size + 9} bytes`)]))
    )
  }
}

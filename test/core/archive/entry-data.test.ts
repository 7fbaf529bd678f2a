import t from 'tap'
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { deflateRawSync } from 'node:zlib'
import { createEntryReader, maxWholeBytes } from '../../../lib/core/archive/entry-data.js'
import { openArchive } from '../../../lib/core/archive/read.js'
import { Refusal } from '../../../lib/base/errors.js'
import { makeZip, type EntryPlan } from '../../support/make-zip.js'

const directory = t.testdir()
let count = 0

/** Returns the contents of every entry, read in one of the two ways, or the code of the refusal. */
async function contents(entries: EntryPlan[], how: 'whole' | 'pieces'): Promise<string[] | string> {
  const path = join(directory, `${count++}.zip`)
  writeFileSync(path, makeZip(entries))
  const archive = await openArchive(path, { maxEntries: 1000, maxExtractedBytes: 1e9 })
  const reader = createEntryReader(archive)
  const found: string[] = []
  try {
    for (const entry of archive.entries) {
      const pieces: Buffer[] = []
      if (how === 'whole') pieces.push(reader.readWhole(entry))
      else await reader.readPieces(entry, piece => void pieces.push(Buffer.from(piece)))
      found.push(Buffer.concat(pieces).toString('latin1'))
    }
    return found
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return error.code
  } finally {
    archive.close()
  }
}

const big = randomBytes(300_000).toString('hex')
const text = 'hello '.repeat(1000)
const deflated = deflateRawSync(text)

for (const how of ['whole', 'pieces'] as const) {
  t.test(`reads entries ${how === 'whole' ? 'whole' : 'in pieces'}`, async t => {
    const cases: Array<[entry: EntryPlan, expected: string[] | string, what: string]> = [
      [{ name: 'a', data: text }, [text], 'stored'],
      [{ name: 'a', data: text, method: 8 }, [text], 'deflated'],
      [{ name: 'a', data: '', method: 8 }, [''], 'deflated nothing'],
      [{ name: 'a', data: big, method: 8 }, [big], 'larger than the window'],
      [{ name: 'a', data: text, method: 8, descriptor: true }, [text], 'with a data descriptor'],
      [{ name: 'a', data: text, localExtra: Buffer.alloc(40) }, [text], 'with a longer local header'],
      [{ name: 'a', data: text, method: 8, crc32: 1 }, 'crc_mismatch', 'wrong CRC, deflated'],
      [{ name: 'a', data: text, crc32: 1 }, 'crc_mismatch', 'wrong CRC, stored'],
      [{ name: 'a', data: text, method: 8, size: text.length - 1 }, 'size_mismatch', 'inflates to a byte more'],
      [{ name: 'a', data: text, method: 8, size: text.length + 1 }, 'size_mismatch', 'inflates to a byte less'],
      [{ name: 'a', data: text, method: 8, size: 0 }, 'size_mismatch', 'declares nothing, inflates to much'],
      [{ name: 'a', data: text, method: 8, raw: Buffer.from('no deflate at all') }, 'damaged_entry', 'not deflated'],
      [{ name: 'a', data: text, method: 8, raw: deflated.subarray(0, -3) }, 'damaged_entry', 'cut off'],
      [{ name: 'a', data: text, localSignature: 1 }, 'damaged_zip', 'no local header']
    ]
    for (const [entry, expected, what] of cases) t.strictSame(await contents([entry], how), expected, what)
  })
}

t.test('reads many neighbouring entries from one window', async t => {
  const entries = Array.from({ length: 500 }, (_, i) => ({
    name: `f${i}`,
    data: `${i} `.repeat(i * 3),
    method: (i % 2) * 8
  }))
  t.strictSame(
    await contents(entries, 'whole'),
    entries.map(({ data }) => data)
  )
})

t.test('reads a stored entry at the size limit for reading whole', async t => {
  const data = 'x'.repeat(maxWholeBytes)
  t.equal((await contents([{ name: 'a', data }], 'whole'))[0]?.length, maxWholeBytes)
})

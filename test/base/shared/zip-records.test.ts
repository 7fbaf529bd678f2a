import t from 'tap'
import {
  deflated,
  descriptorOf,
  directoryOf,
  endOf,
  localHeader,
  localHeaderBytes,
  newRecord,
  type ZipRecord,
  crc32
} from '../../../lib/base/shared/zip-records.js'

// DOS time is local time, so the instant is made of local time, too: 3 February 2024, 04:05:07.
const mtimeMs = new Date(2024, 1, 3, 4, 5, 7).getTime()
const seconds = Buffer.alloc(4)
seconds.writeInt32LE(mtimeMs / 1000)
const timestamp = `55540500 01 ${seconds.toString('hex')}`
const dosTime = 'a320 4358'

function recordOf(name: string, offset: number, zip64FromBytes?: number): ZipRecord {
  const attributes = (0o100755 << 16) >>> 0
  return newRecord({ name: Buffer.from(name), mtimeMs, attributes, bytes: 5, offset }, zip64FromBytes)
}

const plain = { ...recordOf('a/ü', 0), method: deflated, crc: 0x12345678, packedBytes: 3 }
const plainCentral =
  `504b0102 3f03 1400 0008 0800 ${dosTime} 78563412 03000000 05000000 0400 0900 0000 0000 0000 0000ed81 00000000 ` +
  `612fc3bc ${timestamp}`
const wide = { ...recordOf('b', 70, 4), crc: 1, packedBytes: 5 }

const cases: Array<[what: string, bytes: Uint8Array, expected: string]> = [
  [
    'a local header',
    localHeader(plain),
    `504b0304 1400 0008 0800 ${dosTime} 78563412 03000000 05000000 0400 0900 612fc3bc ${timestamp}`
  ],
  [
    'the local header of an entry with a data descriptor',
    localHeader({ ...plain, isStreamed: true }),
    `504b0304 1400 0808 0800 ${dosTime} 00000000 00000000 00000000 0400 0900 612fc3bc ${timestamp}`
  ],
  ['a data descriptor', descriptorOf(plain), '504b0708 78563412 03000000 05000000'],
  [
    'a directory and its end',
    directoryOf([plain], 38),
    `${plainCentral} 504b0506 0000 0000 0100 0100 3b000000 26000000 0000`
  ],
  [
    'a local header with the zip64 field',
    localHeader(wide),
    `504b0304 2d00 0008 0000 ${dosTime} 01000000 ffffffff ffffffff 0100 1d00 62 ${timestamp} ` +
      '0100 1000 0500000000000000 0500000000000000'
  ],
  ['a data descriptor with zip64', descriptorOf(wide), '504b0708 01000000 0500000000000000 0500000000000000'],
  [
    'a directory whose offset needs zip64',
    directoryOf([wide], 38, 4),
    `504b0102 3f03 2d00 0008 0000 ${dosTime} 01000000 ffffffff ffffffff 0100 2500 0000 0000 0000 0000ed81 ffffffff ` +
      `62 ${timestamp} 0100 1800 0500000000000000 0500000000000000 4600000000000000 ` +
      '504b0606 2c00000000000000 3f03 2d00 00000000 00000000 0100000000000000 0100000000000000 ' +
      '5400000000000000 2600000000000000 504b0607 00000000 7a00000000000000 01000000 ' +
      '504b0506 0000 0000 0100 0100 54000000 ffffffff 0000'
  ],
  [
    'the end of a directory with too many entries for 16 bits',
    endOf({ entries: 65_535, offset: 1, bytes: 2 }),
    '504b0606 2c00000000000000 3f03 2d00 00000000 00000000 ffff000000000000 ffff000000000000 ' +
      '0200000000000000 0100000000000000 504b0607 00000000 0300000000000000 01000000 ' +
      '504b0506 0000 0000 ffff ffff 02000000 01000000 0000'
  ]
]

for (const [what, bytes, expected] of cases)
  t.test(what, async t => t.equal(Buffer.from(bytes).toString('hex'), expected.replaceAll(' ', '')))

t.test('computes the length of a local header before it is written', async t => {
  for (const record of [plain, wide]) t.equal(localHeaderBytes(record), localHeader(record).length)
})

const checksums: Array<[text: string, expected: number]> = [
  ['', 0],
  ['123456789', 0xcbf43926],
  ['The quick brown fox jumps over the lazy dog', 0x414fa339]
]

t.test('computes the check values of the standard, whole and in two pieces', async t => {
  for (const [text, expected] of checksums) {
    const bytes = Buffer.from(text)
    t.equal(crc32(bytes), expected, text)
    for (let cut = 0; cut <= bytes.length; cut++)
      t.equal(crc32(bytes.subarray(cut), crc32(bytes.subarray(0, cut))), expected, `${text} cut at ${cut}`)
  }
})

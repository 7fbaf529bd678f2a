import { deflateRawSync } from 'node:zlib'
import { crc32 } from '../../lib/base/digests.js'

/**
 * An entry as it is to stand in a zip, true or lying. What is left out is what an honest writer would write; fields of
 * the local header follow the central ones unless they are given apart.
 */
export interface EntryPlan {
  name: string | Buffer
  data?: string | Buffer
  /** 8 deflates `data`; anything else stores it as it is. */
  method?: number
  /** Unix mode with file type; makes the entry "made by UNIX". */
  mode?: number
  flags?: number
  crc32?: number
  size?: number
  compressedSize?: number
  /** The bytes of the field, instead of the computed ones. */
  raw?: Buffer
  extra?: Buffer
  localExtra?: Buffer
  localSignature?: number
  /** Writes sizes and CRC after the data (bit 3), with zeros in the local header. */
  descriptor?: boolean
  /** Refers to the bytes of the entry with this index. */
  sharesBytesOf?: number
  /** The claimed offset of the local header. */
  headerOffset?: number
  dosDate?: number
  dosTime?: number
}

export interface ZipPlan {
  entries: EntryPlan[]
  /** The number of entries in the end record. */
  claimedEntries?: number
  comment?: string
  prefix?: Buffer
  zip64?: boolean
}

const defaultDate = ((2024 - 1980) << 9) | (6 << 5) | 15
const defaultTime = (12 << 11) | (30 << 5)

/** Returns the bytes of the described zip. */
export function makeZip(plan: ZipPlan | EntryPlan[]): Buffer {
  const {
    entries,
    claimedEntries,
    comment = '',
    prefix = Buffer.alloc(0),
    zip64 = false
  } = Array.isArray(plan) ? { entries: plan } : plan
  const parts: Buffer[] = [prefix]
  let offset = prefix.length
  const put = (bytes: Buffer): void => {
    parts.push(bytes)
    offset += bytes.length
  }
  const offsets: number[] = []
  const central = entries.map(entry => {
    const fields = fieldsOf(entry)
    if (entry.sharesBytesOf !== undefined) {
      offsets.push(offsets[entry.sharesBytesOf] as number)
    } else {
      offsets.push(offset)
      put(localHeader(entry, fields))
      put(fields.raw)
      if (entry.descriptor) put(words(0x08074b50, fields.crc, fields.compressedSize, fields.size))
    }
    return centralHeader(entry, fields, entry.headerOffset ?? (offsets[offsets.length - 1] as number), zip64)
  })
  const start = offset
  central.forEach(put)
  const size = offset - start
  const count = claimedEntries ?? entries.length
  if (zip64) {
    const at = offset
    put(
      Buffer.concat([
        words(0x06064b50),
        long(44),
        halves(45, 45),
        words(0, 0),
        long(count),
        long(count),
        long(size),
        long(start)
      ])
    )
    put(Buffer.concat([words(0x07064b50, 0), long(at), words(1)]))
  }
  put(
    Buffer.concat([
      words(0x06054b50),
      halves(0, 0, zip64 ? 0xffff : count, zip64 ? 0xffff : count),
      words(zip64 ? 0xffffffff : size, zip64 ? 0xffffffff : start),
      halves(Buffer.byteLength(comment)),
      Buffer.from(comment)
    ])
  )
  return Buffer.concat(parts)
}

interface Fields {
  name: Buffer
  raw: Buffer
  method: number
  crc: number
  size: number
  compressedSize: number
  flags: number
}

function fieldsOf(entry: EntryPlan): Fields {
  const data = Buffer.from(entry.data ?? '')
  const method = entry.method ?? 0
  const raw = entry.raw ?? (method === 8 ? deflateRawSync(data) : data)
  const name = Buffer.from(entry.name)
  const isUtf8 = typeof entry.name === 'string' && /[^\x00-\x7f]/.test(entry.name)
  return {
    name,
    raw,
    method,
    crc: entry.crc32 ?? crc32(data),
    size: entry.size ?? data.length,
    compressedSize: entry.compressedSize ?? raw.length,
    flags: entry.flags ?? (isUtf8 ? 0x800 : 0) | (entry.descriptor ? 8 : 0)
  }
}

function localHeader(entry: EntryPlan, { name, method, flags, crc, size, compressedSize }: Fields): Buffer {
  const extra = entry.localExtra ?? Buffer.alloc(0)
  const known = entry.descriptor ? [0, 0, 0] : [crc, compressedSize, size]
  return Buffer.concat([
    words(entry.localSignature ?? 0x04034b50),
    halves(20, flags, method, entry.dosTime ?? defaultTime, entry.dosDate ?? defaultDate),
    words(...known),
    halves(name.length, extra.length),
    name,
    extra
  ])
}

function centralHeader(entry: EntryPlan, fields: Fields, offset: number, zip64: boolean): Buffer {
  const { name, method, flags, crc, size, compressedSize } = fields
  const wide = zip64 ? Buffer.concat([halves(1, 24), long(size), long(compressedSize), long(offset)]) : Buffer.alloc(0)
  const extra = Buffer.concat([wide, entry.extra ?? Buffer.alloc(0)])
  const known = zip64 ? [crc, 0xffffffff, 0xffffffff] : [crc, compressedSize, size]
  return Buffer.concat([
    words(0x02014b50),
    halves(
      ((entry.mode === undefined ? 0 : 3) << 8) | 20,
      20,
      flags,
      method,
      entry.dosTime ?? defaultTime,
      entry.dosDate ?? defaultDate
    ),
    words(...known),
    halves(name.length, extra.length, 0, 0, 0),
    words(((entry.mode ?? 0) << 16) >>> 0),
    words(zip64 ? 0xffffffff : offset),
    name,
    extra
  ])
}

function halves(...values: number[]): Buffer {
  const bytes = Buffer.alloc(values.length * 2)
  values.forEach((value, i) => bytes.writeUInt16LE(value, i * 2))
  return bytes
}

function words(...values: number[]): Buffer {
  const bytes = Buffer.alloc(values.length * 4)
  values.forEach((value, i) => bytes.writeUInt32LE(value >>> 0, i * 4))
  return bytes
}

function long(value: number): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(BigInt(value))
  return bytes
}

import { deflateRawSync } from 'node:zlib'
import { makeZip, type EntryPlan } from './make-zip.js'
import type { Random } from './random.js'

/** An upload that must not succeed, and what the client does during it. */
export interface HostileArchive {
  kind: HostileKind
  bytes: Buffer
  /** Milliseconds after the start of the deployment at which it is cancelled. */
  cancelAfterMs?: number
  /** Number of bytes after which the client disconnects. */
  abortAfterBytes?: number
}

const megabyte = 1024 * 1024
/** The setting `max_extracted_size` of the receiving server, in MB. */
export const hostileLimitMb = 64

export const hostileKinds = [
  'inflates to more',
  'bomb',
  'wrong CRC',
  'no deflate',
  'cut off',
  'cut data',
  'flipped',
  'oversize',
  'overlapping',
  'bad name',
  'many links',
  'cancelled',
  'aborted upload'
] as const
export type HostileKind = (typeof hostileKinds)[number]

/** Created once: each archive consists of slices of these. */
let material: { text: Buffer; deflated: Buffer; zeros: Buffer; noise: Buffer } | undefined

function materials(): NonNullable<typeof material> {
  if (material !== undefined) return material
  const text = Buffer.from(
    Array.from({ length: 40_000 }, (_, index) => `${index} the contents of a page, ${index * 7919}\n`).join('')
  )
  const noise = Buffer.alloc(
    megabyte,
    Uint8Array.from({ length: 251 }, (_, index) => (index * 167 + 13) & 0xff)
  )
  return (material = {
    text,
    deflated: deflateRawSync(text),
    zeros: deflateRawSync(Buffer.alloc(40 * megabyte), { level: 1 }),
    noise
  })
}

/** Returns an archive of this kind. Large entries have over 512 KiB, so that they are streamed. */
export function hostileArchive(kind: HostileKind, random: Random): HostileArchive {
  const { text, deflated, zeros, noise } = materials()
  const page: EntryPlan = { name: 'page.txt', data: text, method: 8, raw: deflated }
  const small: EntryPlan = { name: `small-${random.below(100)}.txt`, data: 'small', method: 8 }
  const zip = (...entries: EntryPlan[]): Buffer => makeZip([small, ...entries])
  switch (kind) {
    case 'inflates to more':
      return { kind, bytes: zip({ ...page, size: 600 * 1024 + random.below(text.length - 700 * 1024) }) }
    case 'bomb':
      return { kind, bytes: zip({ name: 'bomb', raw: zeros, method: 8, crc32: 0, size: 600 * 1024 }) }
    case 'wrong CRC':
      return { kind, bytes: zip({ ...page, crc32: random.below(2 ** 31) }) }
    case 'no deflate':
      return { kind, bytes: zip({ ...page, raw: noise }) }
    case 'cut off':
      return { kind, bytes: cut(zip(page), random) }
    case 'cut data':
      return { kind, bytes: zip({ ...page, raw: deflated.subarray(0, 1 + random.below(deflated.length - 1)) }) }
    case 'flipped':
      return { kind, bytes: flip(zip(page), random, small.name.length) }
    case 'oversize':
      return { kind, bytes: zip({ ...page, size: (hostileLimitMb + 1 + random.below(3000)) * megabyte }) }
    case 'overlapping':
      return { kind, bytes: zip(page, { ...page, name: 'again.txt', sharesBytesOf: 1 }) }
    case 'bad name':
      return {
        kind,
        bytes: zip({ ...page, name: random.oneOf(['../up', '/etc/x', 'a\u202eb', 'a\0b', 'a\\b', 'a//b']) })
      }
    case 'many links':
      return { kind, bytes: zip(...chain(random)) }
    case 'cancelled':
      return {
        kind,
        bytes: zip({ name: 'zeros', raw: zeros, method: 8, size: 40 * megabyte, crc32: 1 }),
        cancelAfterMs: random.below(60)
      }
    case 'aborted upload': {
      const bytes = zip({ name: 'noise', data: noise })
      return { kind, bytes, abortAfterBytes: random.below(bytes.length) }
    }
  }
}

function cut(bytes: Buffer, random: Random): Buffer {
  return bytes.subarray(0, 1 + random.below(bytes.length - 1))
}

/** Flips one bit of the large entry's data, which its CRC covers. */
function flip(bytes: Buffer, random: Random, smallNameLength: number): Buffer {
  const start = 2 * 30 + smallNameLength + 'page.txt'.length + 100
  const at = start + random.below(100_000)
  bytes[at] = (bytes[at] as number) ^ (1 << random.below(8))
  return bytes
}

/** Returns links that lead through each other and finally out of the target. */
function chain(random: Random): EntryPlan[] {
  return Array.from({ length: 200 }, (_, index): EntryPlan => {
    const next = index % 30 === 0 ? '../out' : `l${index - 1}`
    return { name: `l${index}`, data: 'd/../'.repeat(random.below(500)) + next, method: 8, mode: 0o120777 }
  })
}

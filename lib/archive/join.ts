/*
 * Several zips, made apart, as one: what stands before their directories one after the other, then one directory
 * with every entry's place moved by what now stands before it (APPNOTE 4.3.12), then its end.
 *
 * Differences from any zip: no comments, and the zip64 field, where there is one, has both sizes and the place, as
 * yazl writes it.
 */
import { end64Bytes, endBytes, endOf, locatorBytes, maxUint32, zip64, zip64Version } from './zip-records.js'

const headerBytes = 46
const zip64Field = 0x0001

/** Joins zips in the order in which they are taken. */
export interface Joining {
  /**
   * Takes a zip that has so many bytes, of which `tail` are the last, its whole directory among them; answers how many
   * of them, from its first one, belong into the joined zip.
   */
  take(tail: Buffer, zipBytes: number): number
  /** What the joined zip ends with. */
  end(): Buffer
}

/** `zip64FromBytes`: places from there on are written as zip64 has them. */
export function createJoining({ zip64FromBytes = maxUint32 }: { zip64FromBytes?: number } = {}): Joining {
  const directories: Buffer[] = []
  let entries = 0
  let offset = 0
  return {
    take(tail, zipBytes) {
      const end = tail.subarray(tail.length - endBytes)
      const isZip64 = end.readUInt32LE(16) === maxUint32
      const directoryEnd = tail.length - endBytes - (isZip64 ? end64Bytes + locatorBytes : 0)
      const directory = tail.subarray(directoryEnd - end.readUInt32LE(12), directoryEnd)
      const contentBytes = zipBytes - (tail.length - directoryEnd) - directory.length
      directories.push(move(Buffer.from(directory), offset, zip64FromBytes))
      entries += end.readUInt16LE(10)
      offset += contentBytes
      return contentBytes
    },
    end() {
      const bytes = directories.reduce((sum, { length }) => sum + length, 0)
      return Buffer.concat([...directories, endOf({ entries, offset, bytes }, zip64FromBytes)])
    }
  }
}

/** A directory whose entries stand so much later. */
function move(directory: Buffer, by: number, zip64FromBytes: number): Buffer {
  const pieces: Buffer[] = []
  let done = 0
  for (let at = 0; at < directory.length;) {
    const nameBytes = directory.readUInt16LE(at + 28)
    const length = headerBytes + nameBytes + directory.readUInt16LE(at + 30)
    const place = directory.readUInt32LE(at + 42) + by
    // Nearly always: nothing but a number changes.
    if (place < zip64FromBytes) {
      directory.writeUInt32LE(place, at + 42)
    } else {
      pieces.push(directory.subarray(done, at), moveFar(directory.subarray(at, at + length), nameBytes, by))
      done = at + length
    }
    at += length
  }
  return pieces.length === 0 ? directory : Buffer.concat([...pieces, directory.subarray(done)])
}

/** A record whose place is written as zip64 has it. */
function moveFar(record: Buffer, nameBytes: number, by: number): Buffer {
  const near = record.readUInt32LE(42)
  if (near === maxUint32) {
    const at = findZip64(record, headerBytes + nameBytes)
    record.writeBigUInt64LE(record.readBigUInt64LE(at + 20) + BigInt(by), at + 20)
    return record
  }
  const field = zip64([record.readUInt32LE(24), record.readUInt32LE(20), near + by])
  record.writeUInt16LE(zip64Version, 6)
  for (const at of [20, 24, 42]) record.writeUInt32LE(maxUint32, at)
  record.writeUInt16LE(record.readUInt16LE(30) + field.length, 30)
  return Buffer.concat([record, field])
}

function findZip64(record: Buffer, extraStart: number): number {
  let at = extraStart
  while (record.readUInt16LE(at) !== zip64Field) at += 4 + record.readUInt16LE(at + 2)
  return at
}

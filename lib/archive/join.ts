/*
 * Joins several zips into one: first their contents one after the other, then one directory in which the offset of
 * every entry is moved accordingly (APPNOTE 4.3.12), then its end record.
 *
 * Limits of the input: no comments; a zip64 field, if present, contains both sizes and the offset, as yazl writes it.
 */
import {
  centralBytes,
  end64Bytes,
  endBytes,
  endOf,
  locatorBytes,
  maxUint32,
  zip64Field,
  zip64Id,
  zip64Version
} from '../shared/zip-records.js'

/** Joins zips in the order in which they are passed. */
export interface Joining {
  /**
   * Takes a zip of `zipBytes` bytes. `tail` contains its last bytes, including its whole directory. Returns the number
   * of bytes, from its first one, that belong in the joined zip.
   */
  take(tail: Buffer, zipBytes: number): number
  /** Returns the end of the joined zip. */
  end(): Buffer
}

/** Creates the joining. Offsets from `zip64FromBytes` on are written in zip64 form. */
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

/** Returns a directory whose entries are moved by this number of bytes. */
function move(directory: Buffer, by: number, zip64FromBytes: number): Buffer {
  const pieces: Buffer[] = []
  let done = 0
  for (let at = 0; at < directory.length; ) {
    const nameBytes = directory.readUInt16LE(at + 28)
    const length = centralBytes + nameBytes + directory.readUInt16LE(at + 30)
    const place = directory.readUInt32LE(at + 42) + by
    // The usual case: only a number changes.
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

/** Returns a record with its offset in zip64 form. */
function moveFar(record: Buffer, nameBytes: number, by: number): Buffer {
  const near = record.readUInt32LE(42)
  if (near === maxUint32) {
    const at = findZip64(record, centralBytes + nameBytes)
    record.writeBigUInt64LE(record.readBigUInt64LE(at + 20) + BigInt(by), at + 20)
    return record
  }
  const field = zip64Field([record.readUInt32LE(24), record.readUInt32LE(20), near + by])
  record.writeUInt16LE(zip64Version, 6)
  for (const at of [20, 24, 42]) record.writeUInt32LE(maxUint32, at)
  record.writeUInt16LE(record.readUInt16LE(30) + field.length, 30)
  return Buffer.concat([record, field])
}

function findZip64(record: Buffer, extraStart: number): number {
  let at = extraStart
  while (record.readUInt16LE(at) !== zip64Id) at += 4 + record.readUInt16LE(at + 2)
  return at
}

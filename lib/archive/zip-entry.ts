import { defaultZip64FromBytes, newRecord, type ZipRecord } from '../shared/zip-records.js'
import { unixMode, type ZipSource } from './source.js'

/** An entry that is being written, with the source of its contents. */
export interface Entry extends ZipRecord {
  source: ZipSource
}

/**
 * Returns the entry of a source whose contents are not written yet. Sizes and offsets from `zip64FromBytes` on use
 * zip64.
 */
export function newEntry(source: ZipSource, offset: number, zip64FromBytes = defaultZip64FromBytes): Entry {
  const name = Buffer.from(source.kind === 'directory' ? `${source.path}/` : source.path)
  const attributes = (unixMode(source) << 16) >>> 0
  const given = { name, mtimeMs: source.mtimeMs, attributes, bytes: bytesOf(source), offset }
  return Object.assign(newRecord(given, zip64FromBytes), { source })
}

function bytesOf(source: ZipSource): number {
  if (source.kind === 'symlink') return Buffer.byteLength(source.source)
  return source.kind === 'directory' ? 0 : source.bytes
}

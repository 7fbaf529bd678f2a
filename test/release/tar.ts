import { gzipSync } from 'node:zlib'

export interface TarEntry {
  /** A relative path with slashes. */
  path: string
  content: Buffer
  isExecutable: boolean
}

const blockBytes = 512

/**
 * A tar archive (POSIX.1-1988 ustar), compressed: the entries in the order of their paths, all of one owner and one
 * time (seconds since 1970), so that the same files give the same bytes. Throws where a path has no place in a header.
 */
export function tarball(entries: readonly TarEntry[], modifiedAtSeconds: number): Buffer {
  const sorted = [...entries].sort((a, b) => (a.path < b.path ? -1 : 1))
  const blocks = sorted.flatMap(entry => [
    header(entry, modifiedAtSeconds),
    entry.content,
    padding(entry.content.length)
  ])
  return gzipSync(Buffer.concat([...blocks, Buffer.alloc(2 * blockBytes)]), { level: 9 })
}

const padding = (bytes: number): Buffer => Buffer.alloc((blockBytes - (bytes % blockBytes)) % blockBytes)

/*
 * Offsets and lengths of the fields:
 *   0 name 100 · 100 mode 8 · 108 owner 8 · 116 group 8 · 124 size 12 · 136 time 12 · 148 checksum 8 · 156 type 1
 *   257 magic 6 · 263 version 2 · 345 prefix 155
 * Numbers are octal digits and end with NUL. The checksum is the sum of all bytes, itself taken as spaces.
 */
function header({ path, content, isExecutable }: TarEntry, modifiedAtSeconds: number): Buffer {
  const { prefix, name } = splitPath(path)
  const block = Buffer.alloc(blockBytes)
  const octal = (value: number, digits: number): string => `${value.toString(8).padStart(digits, '0')}\0`
  block.write(name, 0)
  block.write(octal(isExecutable ? 0o755 : 0o644, 7), 100)
  block.write(octal(0, 7), 108)
  block.write(octal(0, 7), 116)
  block.write(octal(content.length, 11), 124)
  block.write(octal(modifiedAtSeconds, 11), 136)
  block.write('        ', 148)
  block.write('0', 156)
  block.write('ustar\x0000', 257)
  block.write(prefix, 345)
  const sum = block.reduce((total, byte) => total + byte, 0)
  block.write(`${octal(sum, 6)} `, 148)
  return block
}

/** Splits a path of more than 100 bytes at a slash: the part before it goes into the prefix. */
function splitPath(path: string): { prefix: string; name: string } {
  if (Buffer.byteLength(path) <= 100) return { prefix: '', name: path }
  for (let at = path.indexOf('/'); at !== -1; at = path.indexOf('/', at + 1)) {
    const [prefix, name] = [path.slice(0, at), path.slice(at + 1)]
    if (Buffer.byteLength(prefix) <= 155 && Buffer.byteLength(name) <= 100) return { prefix, name }
  }
  throw new Error(`The path is too long for a tar header: "${path}"`)
}

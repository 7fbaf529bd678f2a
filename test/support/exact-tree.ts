import { lstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'

/**
 * Returns everything that an exact way back restores: each path with its type, permissions, modification time in
 * microseconds, to which Node rounds it, and contents. Directories have no time.
 */
export function exactTree(directory: string, below = ''): Record<string, string> {
  const tree: Record<string, string> = {}
  for (const name of readdirSync(join(directory, below)).sort()) {
    const path = below === '' ? name : `${below}/${name}`
    const place = join(directory, path)
    const stats = lstatSync(place, { bigint: true })
    const mode = (Number(stats.mode) & 0o7777).toString(8)
    if (stats.isDirectory()) {
      tree[path] = `directory ${mode}`
      Object.assign(tree, exactTree(directory, path))
    } else if (stats.isSymbolicLink()) {
      tree[path] = `link to ${readlinkSync(place)}`
    } else {
      tree[path] = `file ${mode} ${(stats.mtimeNs + 500n) / 1000n} ${readFileSync(place, 'latin1')}`
    }
  }
  return tree
}

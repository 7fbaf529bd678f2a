import { lstatSync, readFileSync, readdirSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'

/**
 * Returns the contents of a directory as lines: path, mode, and contents (or the destination of a link), without times.
 * Directories end in `/`.
 */
export function snapshot(directory: string): string[] {
  const lines: string[] = []
  const visit = (path: string): void => {
    for (const name of readdirSync(join(directory, path)).sort()) {
      const way = path === '' ? name : `${path}/${name}`
      const place = join(directory, way)
      const stats = lstatSync(place)
      const mode = (stats.mode & 0o7777).toString(8)
      if (stats.isDirectory()) {
        lines.push(`${way}/ ${mode}`)
        visit(way)
      } else if (stats.isSymbolicLink()) {
        lines.push(`${way} -> ${readlinkSync(place)}`)
      } else {
        lines.push(`${way} ${mode} ${stats.isFile() ? readFileSync(place, 'latin1') : 'special'}`)
      }
    }
  }
  visit('')
  return lines
}

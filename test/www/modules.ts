import { readFileSync } from 'node:fs'

/** The directory of the compiled panel. */
export const compiled = new URL('../../www/', import.meta.url)

/** Returns the text of a module, by its address below the base. */
export const moduleText = (name: string): string => readFileSync(new URL(name, compiled), 'utf8')

const staticImport = /^(?:import|export) [^'"()=]*['"](\.[^'"]+)['"]/gm
const anyImport = /^(?:import|export) [^'"()=]*['"](\.[^'"]+)['"]|\bimport\('(\.[^']+)'\)/gm

/** It loads every page, whichever module needs it. */
const router = 'router.js'

/**
 * Returns the addresses of a module and its static imports below the base. With `isWhole`, also of the modules that are
 * imported dynamically, but by the router only for main.js.
 */
export function closureOf(entry: string, { isWhole = false } = {}): string[] {
  const found = new Set<string>()
  const visit = (url: URL): void => {
    const name = url.href.slice(compiled.href.length)
    if (found.has(name)) return
    found.add(name)
    const isFollowed = isWhole && (name !== router || entry === 'main.js')
    for (const [, path, late] of readFileSync(url, 'utf8').matchAll(isFollowed ? anyImport : staticImport)) {
      visit(new URL((path ?? late) as string, url))
    }
  }
  visit(new URL(entry, compiled))
  return [...found].sort()
}

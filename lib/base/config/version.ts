import { readFileSync } from 'node:fs'

const top = new URL('../../../../', import.meta.url)

/**
 * Returns the version of svc, the same for every command, the server and the panel: that of package.json, or `dev` for a
 * development build, whose package.json names no version (§9).
 */
export function readVersion(): string {
  return versionIn(readFileSync(new URL('package.json', top), 'utf8'))
}

/** Returns the version that the text of a package.json contains. */
export function versionIn(text: string): string {
  return (JSON.parse(text) as { version?: string }).version || 'dev'
}

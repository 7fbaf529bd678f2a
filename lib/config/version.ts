import { existsSync, readFileSync } from 'node:fs'

/** Returns the version of the package, or `dev` if the program runs from a checkout of its sources (§9). */
export function readVersion(): string {
  const top = new URL('../../../', import.meta.url)
  if (existsSync(new URL('.git', top))) return 'dev'
  return (JSON.parse(readFileSync(new URL('package.json', top), 'utf8')) as { version: string }).version
}

import { existsSync, readFileSync } from 'node:fs'

const top = new URL('../../../../', import.meta.url)

/** Returns the version from package.json. */
export function packageVersion(): string {
  return (JSON.parse(readFileSync(new URL('package.json', top), 'utf8')) as { version: string }).version
}

/** Returns the version of the package, or `dev` if the program runs from a checkout of its sources (§9). */
export function readVersion(): string {
  return existsSync(new URL('.git', top)) ? 'dev' : packageVersion()
}

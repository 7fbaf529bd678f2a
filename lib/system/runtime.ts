import { release, version, versions } from 'node:process'

/** What runs the server: Bun calls itself Node where a program looks for that. */
export function describeRuntime(): { name: string; version: string } {
  const bun = versions['bun']
  return bun === undefined ? { name: release.name, version } : { name: 'bun', version: `v${bun}` }
}

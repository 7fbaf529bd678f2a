import { release, version, versions } from 'node:process'

/** Of Bun, which calls itself Node where a program looks for that; undefined: this is Node. */
export const bunVersion: string | undefined = versions['bun']

/** What runs this, with its version. */
export function describeRuntime(): { name: string; version: string } {
  return bunVersion === undefined ? { name: release.name, version } : { name: 'bun', version: `v${bunVersion}` }
}

/**
 * What svc has none of in this runtime, whatever is installed, a sentence each. (What an older Node lacks, svc does by
 * other means, or without it: CRC-32 in crc32.ts, digests in target/digest.ts and auth/secret.ts, words of ASCII in
 * logs/scan.ts, the free space of a disk in system/disk.ts.)
 */
export const missingInRuntime: { terminal: string | null } = {
  terminal: bunVersion === undefined ? null : 'The terminal needs Node: node-pty does not work in Bun (start with "--runtime node")'
}

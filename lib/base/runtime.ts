import { release, version, versions } from 'node:process'

/** Version of Bun, which identifies itself as Node; undefined in Node. */
export const bunVersion: string | undefined = versions['bun']

/** Returns the name and the version of the runtime. */
export function describeRuntime(): { name: string; version: string } {
  return bunVersion === undefined ? { name: release.name, version } : { name: 'bun', version: `v${bunVersion}` }
}

/**
 * Features that svc lacks in this runtime, whatever is installed, each with a message. (For functions that older
 * versions of Node lack, svc has alternatives: CRC-32 in crc32.ts, digests in install/digest.ts and auth/secret.ts,
 * ASCII words in logs/search/scan.ts, free disk space in machine/disk.ts.)
 */
export const missingInRuntime: { terminal: string | null } = {
  terminal:
    bunVersion === undefined
      ? null
      : 'The terminal needs Node: node-pty does not work in Bun (start with "--runtime node")'
}

import { createHash } from 'node:crypto'
import type { Audited } from './dependencies.js'

interface Content {
  name: string
  version: string
  madeAtSeconds: number
  packages: readonly Audited[]
}

/** Returns the contents of a bundle in CycloneDX 1.5 (ECMA-424). The same content has the same serial number. */
export function sbom({ name, version, madeAtSeconds, packages }: Content) {
  const reference = (packageName: string, packageVersion: string): string => `pkg:npm/${packageName}@${packageVersion}`
  const own = reference(name, version)
  const components = packages.map(({ name, version, licence, integrity, isOptional }) => ({
    type: 'library',
    'bom-ref': reference(name, version),
    name,
    version,
    purl: reference(name, version),
    scope: isOptional ? 'optional' : 'required',
    licenses: [{ license: { id: licence } }],
    // Of the registry's archive, as the lock file has it; the files here have theirs in SHA256SUMS.
    hashes: [{ alg: 'SHA-512', content: Buffer.from(integrity.replace('sha512-', ''), 'base64').toString('hex') }]
  }))
  const neededBy = (of: string): string[] =>
    packages.filter(({ neededBy }) => neededBy === of).map(({ name, version }) => reference(name, version))
  const dependencies = [
    { ref: own, dependsOn: neededBy('svc') },
    ...packages.map(({ name, version }) => ({ ref: reference(name, version), dependsOn: neededBy(name) }))
  ]
  const digest = createHash('sha256')
    .update(JSON.stringify([own, madeAtSeconds, components]))
    .digest('hex')
  return {
    bomFormat: 'CycloneDX',
    specVersion: '1.5',
    serialNumber: `urn:uuid:${uuidOf(digest)}`,
    version: 1,
    metadata: {
      timestamp: new Date(madeAtSeconds * 1000).toISOString(),
      component: { type: 'application', 'bom-ref': own, name, version, licenses: [{ license: { id: 'MIT' } }] }
    },
    components,
    dependencies
  }
}

/** Returns a UUID version 8 (RFC 9562 §5.8) from the digest. */
function uuidOf(digest: string): string {
  const hex = `${digest.slice(0, 12)}8${digest.slice(13, 16)}8${digest.slice(17, 32)}`
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20, 32)].join('-')
}

/* What a client has sent about a release beside its files: the statement, its signatures, the list of its components. */
import { readFile } from 'node:fs/promises'
import { sha256 } from '../base/digests.js'
import { notFound } from '../base/errors.js'
import { readSbom } from '../model/sbom.js'
import type { Bytes } from '../model/scalars.js'
import { findAttestation } from '../core/store/tables/signing-keys.js'
import type { DeployFiles } from './files.js'
import type { DeployNeeds } from './needs.js'

/** One of these files. @schema Attestation */
export interface AttestationFile {
  /** `statement.json`, `1.sig` and so on, `sbom.json`. */
  name: string
  /** Its media type. */
  type: string
  bytes: Bytes
  /** SHA-256 checksum in hexadecimal. */
  sha256: string
  /** Number of components, of a list of components. */
  components?: number
}

type File = AttestationFile & { content: Uint8Array }

/** Creates the access to these files. */
export function createAttestations({ store, files }: Pick<DeployNeeds, 'store'> & { files: DeployFiles }) {
  async function read(deployId: string): Promise<File[]> {
    const { statement, signatures = [] } = findAttestation(store, deployId) ?? {}
    const sbom = await readFile(files.sbom(deployId)).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return null
      throw error
    })
    return [
      ...(statement === undefined ? [] : [fileOf('statement.json', 'application/vnd.in-toto+json', statement)]),
      ...signatures.map((text, index) => fileOf(`${index + 1}.sig`, 'text/plain', text)),
      ...(sbom === null
        ? []
        : [{ ...fileOf('sbom.json', 'application/json', sbom), components: readSbom(sbom).components.length }])
    ]
  }

  return {
    async attestations(deployId: string): Promise<AttestationFile[]> {
      return (await read(deployId)).map(({ content: _, ...file }) => file)
    },

    async attestation(deployId: string, name: string): Promise<File> {
      const found = (await read(deployId)).find(each => each.name === name)
      if (found === undefined) throw notFound('Attestation', name)
      return found
    }
  }
}

function fileOf(name: string, type: string, given: string | Uint8Array): File {
  const content = Buffer.from(given as Uint8Array)
  return { name, type, bytes: content.length, sha256: sha256(content).toString('hex'), content }
}

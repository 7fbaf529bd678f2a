import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { importPackage, type ImportRequest } from '../../lib/carry/transfer/import.js'
import type { TransferNeeds } from '../../lib/carry/transfer/needs.js'
import { insertSigningKey } from '../../lib/core/store/tables/signing-keys.js'
import { createSignatures } from '../../lib/deploy/signatures.js'
import type { SigningKey } from '../../lib/model/statement.js'
import { createSettings } from '../../lib/projects/settings.js'
import { openStage } from './store.js'
import { zipOf } from './zip.js'

const actor = { name: 'test', ip: null }
/** What most imports of these tests ask for. */
export const request: ImportRequest = {
  strategy: 'skip-existing',
  accessSettings: false,
  restoreArtifacts: true,
  dryRun: false,
  actor
}
/** The same, but existing records are replaced. */
export const overwrite: ImportRequest = { ...request, strategy: 'overwrite' }

/** A store without a server, and a record of what an import calls in other modules. */
export async function openImport(t: Parameters<typeof openStage>[0], change: Partial<TransferNeeds> = {}) {
  const stage = await openStage(t)
  const home = {
    directory: stage.directory,
    deployments: join(stage.directory, 'deployments'),
    tmp: join(stage.directory, 'tmp')
  }
  mkdirSync(home.deployments)
  const signatures = createSignatures({ ...stage, home })
  const restored: string[] = []
  const notes: string[] = []
  const filesNow = (): string => readdirSync(home.deployments).join(' ')
  const needs: TransferNeeds = {
    ...stage,
    home,
    version: 'test',
    settings: createSettings(stage),
    deployments: {
      hasRunning: () => false,
      async note(ids) {
        notes.push(`${ids.join(' ')}: ${filesNow()}`)
        return { settle: async () => void notes.push(`settled: ${filesNow()}`) }
      },
      signers: () => signatures.signers(),
      readOutput: async () => ({ text: '', truncated: false }),
      restore: async ({ projectId }) => void restored.push(projectId)
    },
    ...change
  }
  let number = 0
  async function take(files: Record<string, unknown>, asked = request, given: Partial<TransferNeeds> = {}) {
    const path = join(stage.directory, `package${++number}.zip`)
    const entries = Object.entries(files).map(([name, value]) => {
      return [
        `svc-export/${name}`,
        typeof value === 'string' || value instanceof Uint8Array ? value : JSON.stringify(value)
      ] as const
    })
    writeFileSync(
      path,
      await zipOf({ 'svc-export/manifest.json': '{"schemaVersion":1}', ...Object.fromEntries(entries) })
    )
    return importPackage({ ...needs, ...given }, path, asked)
  }
  /** Trusts a key that signs releases. */
  const trust = (row: SigningKey) => stage.store.write(tx => insertSigningKey(tx, row))
  return { ...stage, home, needs, notes, restored, signatures, take, trust }
}

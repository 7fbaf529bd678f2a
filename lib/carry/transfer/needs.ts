import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from '../../base/clock.js'
import type { Ids } from '../../base/digests.js'
import { makeDirectory } from '../../base/files.js'
import type { Actor, AuditEvent } from '../../model/audit.js'
import type { GivenPolicy, PolicyChanges } from '../../model/policy.js'
import type { Attestation, SignedBy } from '../../model/statement.js'
import type { Reader, Store, Transaction } from '../../core/store/database.js'
import type { LogSourceRecord } from './package.js'

/** The table of log sources, which belongs to another module. */
export interface LogSourceTable {
  /** Returns a project's log sources. */
  list(db: Reader, projectId: string): LogSourceRecord[]
  find(db: Reader, id: string): LogSourceRecord | undefined
  /** Adds a log source. */
  insert(tx: Transaction, source: LogSourceRecord): void
  /** Replaces every field of the log source with this id. */
  replace(tx: Transaction, source: LogSourceRecord): void
}

/** Encrypts the header values of a policy; `before` is the policy that is stored here. */
export type SealPolicy = (policy: PolicyChanges, place: { projectId: string; before: PolicyChanges }) => PolicyChanges

/** The parts of other modules that export and import use. */
export interface TransferNeeds {
  store: Store
  home: { directory: string; deployments: string; tmp: string }
  /** The same as in `TargetRules`. */
  allowSystemPaths?: boolean | undefined
  clock: Clock
  ids: Ids
  /** The version of this program. */
  version: string
  audit: { within(tx: Transaction, event: AuditEvent): void; record(event: AuditEvent): Promise<void> }
  settings: {
    /** Returns every known setting with its value. */
    all(): Record<string, string>
    /** Returns whether a setting's value is a secret. */
    isSecret(key: string): boolean
    /** Returns the values as they would be stored; refuses an invalid one, naming its key. */
    check(patch: Record<string, unknown>): Map<string, string>
    /** Reloads the settings from the store after an import. */
    reload(): void
  }
  deployments: {
    hasRunning(projectId: string): boolean
    /**
     * Notes deployments whose files are created before their records, so that a kill in between does not leave the
     * files behind.
     */
    note(deployIds: readonly string[]): Promise<{ settle(): Promise<void> }>
    /** Reads the end of a deployment's output. */
    readOutput(deployId: string, options: { maxBytes: number }): Promise<{ text: string; truncated: boolean }>
    /** Returns a function that returns the keys that may sign for a project, and of which the signatures are. */
    signers(): (projectId: string, sent: Pick<Attestation, 'statement' | 'signatures'>) => SignedBy[]
    /**
     * Extracts an archive over the project's target when the project's queue allows it. Files that are not in the
     * archive stay.
     */
    restore(request: {
      projectId: string
      archivePath: string
      deployId: string | null
      signal: AbortSignal | undefined
    }): Promise<unknown>
  }
  /** Encrypts the header values of checks. */
  headers: { sealer(policies: readonly GivenPolicy[], options: { keepsUnknown: boolean }): Promise<SealPolicy> }
  /** Absent if this program does not support log sources. */
  logSources?: LogSourceTable
}

/** The caller of a transfer. */
export interface Asked {
  actor: Actor
  signal?: AbortSignal | undefined
}

/** Files of one export or import in `tmp/`. All of them are removed at its end, or at the next start after a crash. */
export type Scratch = Awaited<ReturnType<typeof openScratch>>

/** Creates `tmp` if it is missing, and returns an empty scratch in it. */
export async function openScratch(tmp: string, ids: Pick<Ids, 'token'>) {
  await makeDirectory(tmp, 0o700)
  const paths: string[] = []
  return {
    /** Returns the path of a new file, which does not exist yet. */
    file(): string {
      // The next start removes files with such a name: deploy/files.ts.
      const path = join(tmp, `${ids.token()}.zip`)
      paths.push(path)
      return path
    },

    /** Removes all files. */
    async discard(): Promise<void> {
      // The work is done. The next start removes what could not be removed here.
      await Promise.all(paths.map(path => rm(path, { force: true }).catch(() => {})))
    }
  }
}

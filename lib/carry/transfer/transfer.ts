import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Finding, ImportResult } from '../../model/transfer.js'
import type { ExportPlan, ExportRequest } from './export.js'
import type { ImportRequest } from './import.js'
import type { TransferNeeds } from './needs.js'
import type { DatabaseState } from './verify.js'

/** Export and import of all data (§2.14), and the database checks of `svc verify`. */
export type Transfer = ReturnType<typeof createTransfer>

/** Creates the transfer. Modules that read and write zips are loaded on first use: a start must not wait for them. */
export function createTransfer(needs: TransferNeeds) {
  return {
    /** Plans an export. Refuses an unknown project (404). */
    async export(request: ExportRequest): Promise<ExportPlan> {
      const { planExport } = await import('./export.js')
      return planExport(needs, request)
    },

    /** Imports the package at `path`, all of it or nothing. Refuses like import.ts. */
    async import(path: string, request: ImportRequest): Promise<ImportResult> {
      const { importPackage } = await import('./import.js')
      return importPackage(needs, path, request)
    },

    /** Returns the state of the database, and the findings on it and on the targets. */
    async inspect(): Promise<DatabaseState & { findings: Finding[] }> {
      const { inspectDatabase, judgeServerSide, lookAtPlaces } = await import('./verify.js')
      const database = await inspectDatabase(needs.store)
      const places = await lookAtPlaces(database.projects)
      const findings = judgeServerSide({ database, directory: needs.home.directory, places })
      // Of thousands of projects, the answer is megabytes: other requests run before it is written.
      await nextTurn()
      return { ...database, findings }
    }
  }
}

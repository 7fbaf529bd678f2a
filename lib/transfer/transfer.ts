import type { ExportPlan, ExportRequest } from './export.js'
import type { ImportRequest, ImportResult } from './import.js'
import type { TransferNeeds } from './needs.js'
import { inspectDatabase } from './verify.js'
import type { DatabaseState } from './verify.js'

/** Export and import of everything svc knows (§2.14), and what `svc verify` asks of the database. */
export interface Transfer {
  /** Plans a package. Refuses: 404 for an unknown project. */
  export(request: ExportRequest): Promise<ExportPlan>
  /** Takes the package at `path`, all of it or nothing. Refuses what import.ts says. */
  import(path: string, request: ImportRequest): Promise<ImportResult>
  inspect(): DatabaseState
}

/** Joins the room. What reads and writes zips is loaded when it is first needed: a start must not wait for it. */
export function createTransfer(needs: TransferNeeds): Transfer {
  return {
    async export(request) {
      const { planExport } = await import('./export.js')
      return planExport(needs, request)
    },
    async import(path, request) {
      const { importPackage } = await import('./import.js')
      return importPackage(needs, path, request)
    },
    inspect: () => inspectDatabase(needs.store)
  }
}

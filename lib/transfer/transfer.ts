import type { Finding, ImportResult } from '../model/transfer.js'
import type { ExportPlan, ExportRequest } from './export.js'
import type { ImportRequest } from './import.js'
import type { TransferNeeds } from './needs.js'
import { inspectDatabase, judgeServerSide, lookAtPlaces } from './verify.js'
import type { DatabaseState } from './verify.js'

/** Export and import of everything svc knows (§2.14), and what `svc verify` asks of the database. */
export interface Transfer {
  /** Plans a package. Refuses: 404 for an unknown project. */
  export(request: ExportRequest): Promise<ExportPlan>
  /** Takes the package at `path`, all of it or nothing. Refuses what import.ts says. */
  import(path: string, request: ImportRequest): Promise<ImportResult>
  /** What the database holds, and what is to be said of it and of the targets. */
  inspect(): Promise<DatabaseState & { findings: Finding[] }>
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
    async inspect() {
      const database = inspectDatabase(needs.store)
      const places = await lookAtPlaces(database.projects)
      return { ...database, findings: judgeServerSide({ database, directory: needs.home.directory, places }) }
    }
  }
}

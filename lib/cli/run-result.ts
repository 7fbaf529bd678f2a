import { Refusal } from '../base/refusal.js'
import type { Deployment, FinalStatus } from '../model/deployment.js'
import type { Provenance } from '../model/provenance.js'
import type { Api } from './api.js'

/** What `--json` prints of a deployment, and what a CI summary says: all that is known, whatever went wrong. */
export interface RunResult {
  /** Null: no deployment began, or none is known. */
  deployId: string | null
  /** `running`: it was left to go on. */
  status: FinalStatus | 'running'
  duration: string | null
  /** The page of the deployment. */
  url: string | null
  error: { code: string; message: string } | null
  projectId: string | null
  message: string | null
  provenance: Provenance | null
  /** The record with the end of its output; null if it cannot be read. */
  deployment: Deployment | null
}

/** What is known of a deployment before its record is. */
export type Known = Pick<RunResult, 'deployId' | 'projectId' | 'message' | 'provenance' | 'url'>

export function nothingKnown(): Known {
  return { deployId: null, projectId: null, message: null, provenance: null, url: null }
}

/** The result of a push that failed before the end of its deployment was seen. */
export function failedResult(error: unknown, known: Known): RunResult {
  const message = (error instanceof Error ? error.message : String(error)) || 'Interrupted'
  return { ...known, status: 'failed', duration: null, error: { code: codeOf(error), message }, deployment: null }
}

function codeOf(error: unknown): string {
  if (error instanceof Refusal) return error.code
  if (error instanceof Error && error.name === 'Interrupted') return 'interrupted'
  return String((error as NodeJS.ErrnoException | null)?.code ?? 'internal')
}

/** Where people see a deployment: as the server says, else below the address it was asked at. */
export function pageOf(api: Pick<Api, 'address'>, deployId: string | null, page: string | null): string | null {
  if (page !== null || deployId === null) return page
  return `${api.address}/deployments/${encodeURIComponent(deployId)}`
}

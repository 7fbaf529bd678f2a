import type { Maintenance } from '../model/maintenance.js'
import type { Api } from './client/api.js'
import type { Context } from './command.js'
import { lockOperands, lockOptions, openLockPlace } from './lock-place.js'

/** The operand of the commands for maintenance. */
export const maintenanceOperands = lockOperands

/** Options of all these commands. */
export const maintenanceOptions = {
  env: lockOptions.env,
  server: lockOptions.server,
  token: lockOptions.token,
  json: { type: 'switch', help: 'print {maintenance} as JSON' }
} as const

interface Given {
  operands: { project: string | undefined }
  options: { env: string | undefined; server: string | undefined; token: string | undefined }
}

/** Opens the API, and returns the id of the project that the command line names. */
export async function openMaintenance(
  context: Context,
  { operands, options: { env, server, token } }: Given
): Promise<{ api: Api; projectId: string }> {
  const place = await openLockPlace(context, { operands, options: { all: false, env, server, token } })
  return place as { api: Api; projectId: string }
}

/** Returns the sentence that says whether a project is in maintenance. */
export function maintenanceSentence(maintenance: Maintenance | null): string {
  if (maintenance === null) return 'Maintenance is off'
  const { since, by, reason } = maintenance
  const when = `${since.slice(0, 16).replace('T', ' ')} UTC`
  return `Maintenance is on since ${when}, by ${by}${reason === null ? '' : `: "${reason}"`}`
}

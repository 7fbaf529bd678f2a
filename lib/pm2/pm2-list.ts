import type { Pm2Details } from '../model/pm2.js'

/** One process of `pm2 jlist`: the fields that svc reads. Its environment, which contains secrets, is left out. */
export interface Pm2Process extends Omit<Pm2Details, 'bound' | 'found' | 'uptimeMs' | 'instances'> {
  /** Milliseconds since 1970; null while it does not run. */
  startedAtMs: number | null
}

/** How often the parser may read the whole text. */
const maxLooks = 16

/**
 * Returns the list that `pm2 jlist` printed, or null if there is none. pm2 may print other text before and after it,
 * for example `[PM2] Spawning PM2 daemon`. The list is the last array of objects, or else an empty array.
 */
export function parseJlist(text: string): Pm2Process[] | null {
  let found: Pm2Process[] | null = null
  // Searching the end of an unclosed bracket reads to the end of the text, so the total is limited.
  let left = maxLooks * text.length
  for (let at = text.search(/\[\s*[{\]]/); at !== -1 && left > 0; ) {
    const end = endOfArray(text, at)
    left -= (end ?? text.length) - at
    const list = end === null ? null : listOf(text.slice(at, end))
    if (list !== null && (list.length > 0 || found === null)) found = list
    const next = list === null || end === null ? at + 1 : end
    const step = text.slice(next).search(/\[\s*[{\]]/)
    at = step === -1 ? -1 : next + step
  }
  return found
}

/** Returns the offset after the array at `from`, or null if it has no end. Brackets in strings are ignored. */
function endOfArray(text: string, from: number): number | null {
  const tokens = /"(?:[^"\\]|\\[^])*(?:"|\\?$)|[[\]]/g
  tokens.lastIndex = from
  let depth = 0
  for (let token = tokens.exec(text); token !== null; token = tokens.exec(text)) {
    if (token[0] === '[') depth++
    else if (token[0] === ']' && --depth === 0) return tokens.lastIndex
  }
  return null
}

function listOf(text: string): Pm2Process[] | null {
  try {
    const list = JSON.parse(text) as unknown[]
    return list.every(isEntry) ? list.map(read) : null
  } catch {
    return null
  }
}

interface Entry {
  name: string
  pm_id: unknown
  pid?: unknown
  pm2_env?: Record<string, unknown>
  monit?: { memory?: unknown; cpu?: unknown }
}

function isEntry(value: unknown): value is Entry {
  return typeof value === 'object' && value !== null && typeof (value as Entry).name === 'string' && 'pm_id' in value
}

function read({ name, pm_id, pid, pm2_env: env = {}, monit = {} }: Entry): Pm2Process {
  const status = text(env['status']) ?? 'unknown'
  return {
    name,
    pmId: number(pm_id) ?? -1,
    pid: number(pid) || null,
    status,
    startedAtMs: status === 'online' ? number(env['pm_uptime']) : null,
    restarts: number(env['restart_time']) ?? 0,
    unstableRestarts: number(env['unstable_restarts']) ?? 0,
    cpuPercent: number(monit.cpu) ?? 0,
    memoryBytes: number(monit.memory) ?? 0,
    execMode: text(env['exec_mode']) ?? 'unknown',
    errorLogPath: text(env['pm_err_log_path']),
    outLogPath: text(env['pm_out_log_path']),
    createdAt: number(env['created_at'])
  }
}

function number(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) ? value : null
}

function text(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}

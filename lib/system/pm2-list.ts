/** One process of `pm2 jlist`, as far as svc reads it. Its environment, with its secrets, is left out. */
export interface Pm2Process {
  name: string
  pmId: number
  pid: number | null
  status: string
  /** Epoch; null while it does not run. */
  startedAtMs: number | null
  restarts: number
  unstableRestarts: number
  cpuPercent: number
  memoryBytes: number
  execMode: string
  errorLogPath: string | null
  outLogPath: string | null
  createdAt: number | null
}

/** How often the whole text may be looked through. */
const maxLooks = 16

/**
 * The list that `pm2 jlist` printed. Before it pm2 may print anything (that its daemon was started, or is out of date:
 * `[PM2] …`), and after it too: the list is the last array that is one of objects, or else empty. Null: there is none.
 */
export function parseJlist(text: string): Pm2Process[] | null {
  let found: Pm2Process[] | null = null
  // Each bracket without an end is looked for to the end of the text: not for as many as there may be.
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

/** The offset after the array that begins at `from`; null where it does not end. Brackets in strings do not count. */
function endOfArray(text: string, from: number): number | null {
  const tokens = /"(?:[^"\\]|\\.)*"|[[\]]/g
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

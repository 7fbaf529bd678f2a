/** A list item (§2.12): the instances of a cluster are one application. */
export interface Pm2App {
  name: string
  pmId: number
  status: string
}

/** What a project's page shows of its application (§2.12, §4.11). */
export type Pm2Binding = { bound: false; message: string } | { bound: true; found: false; name: string } | Pm2Details

export interface Pm2Details extends Pm2App {
  bound: true
  found: true
  pid: number | null
  uptimeMs: number
  restarts: number
  unstableRestarts: number
  cpuPercent: number
  memoryBytes: number
  execMode: string
  instances: number
  errorLogPath: string | null
  outLogPath: string | null
  createdAt: number | null
}

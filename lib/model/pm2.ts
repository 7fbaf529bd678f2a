import type { Bytes } from './scalars.js'

/** An application in the list (§2.12). The instances of a cluster are one application. */
export interface Pm2App {
  name: string
  pmId: number
  status: string
}

/** Why PM2 lists nothing. `idle`: it is installed, and its daemon does not run. */
export type Pm2Absence = 'missing' | 'idle' | 'failed'

/** The applications that PM2 runs. If it cannot be asked, `reason` and `message` say why. */
export interface Pm2Apps {
  apps: Pm2App[]
  /** Only if PM2 cannot be asked. `idle`: no daemon of PM2 runs. */
  reason?: Pm2Absence
  message?: string
}

/** Whether PM2 can be asked, or why not (§4.11). */
export interface Pm2Availability extends Omit<Pm2Apps, 'apps'> {
  available: boolean
}

/** The application of a project, as the project's page shows it (§2.12, §4.11). */
export type Pm2Binding = { bound: false; message: string } | { bound: true; found: false; name: string } | Pm2Details

/** An application with its figures. */
export interface Pm2Details extends Pm2App {
  bound: true
  found: true
  pid: number | null
  /** @number */
  uptimeMs: number
  restarts: number
  unstableRestarts: number
  /** @number */
  cpuPercent: number
  memoryBytes: Bytes
  execMode: string
  instances: number
  errorLogPath: string | null
  outLogPath: string | null
  createdAt: number | null
}

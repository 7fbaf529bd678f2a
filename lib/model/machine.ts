import type { Bytes, Instant } from './scalars.js'

/** The space of a file system. A value is null if it is unknown or withheld. @schema Disk */
export interface DiskFigures {
  freeBytes: Bytes | null
  totalBytes: Bytes | null
  /** @number */
  percentUsed: number | null
}

/** The memory of the machine, in bytes. */
export interface MemoryFigures {
  totalBytes: Bytes
  /** The free pages, without caches. */
  freeBytes: Bytes
  /** The memory that programs could still get: it includes caches that the system can drop. */
  availableBytes: Bytes
  usedBytes: Bytes
  /** @number */
  percentUsed: number
}

/** The limits of this process's control group (cgroup v2), and its use. */
export interface ContainerFigures {
  /** Null if there is no limit. */
  memoryLimitBytes: Bytes | null
  /** Used memory without file caches that the kernel can drop, like `docker stats`. */
  memoryUsedBytes: Bytes | null
  /** Number of cores, possibly fractional, for example 1.5. Null if there is no limit. @number */
  cpuLimit: number | null
}

/** The resources that the machine and this process use now (§2.11). */
export interface ResourceSnapshot {
  collectedAt: Instant
  host: {
    hostname: string
    platform: string
    arch: string
    cpuModel: string
    cpuCount: number
    /** @number */
    loadAvg: number[]
    /** @number */
    uptimeSec: number
  }
  /** Percentage of all cores together. */
  cpu: {
    /** @number */
    percent: number
  }
  memory: MemoryFigures
  /** The file system of the data directory. */
  disk: DiskFigures
  process: {
    pid: number
    runtime: string
    runtimeVersion: string
    /** @number */
    uptimeSec: number
    /** Percentage of one core. @number */
    cpuPercent: number
    memoryRssBytes: Bytes
    memoryHeapUsedBytes: Bytes
  }
  /** The limits of the container, in addition to the machine's figures; null if nothing limits this process. */
  container: ContainerFigures | null
}

/** The figures of the machine and the server in one minute, and the number of deployments that finished in it. */
export interface MachineFacts {
  /** CPU usage of the machine in percent. @number */
  cpuPercent: number
  /** CPU usage of the server in percent. @number */
  processCpuPercent: number
  memoryUsedBytes: Bytes
  memoryTotalBytes: Bytes
  /** Memory usage of the server in bytes. */
  memoryRssBytes: Bytes
  /** The file system of the data directory; null if unknown. @number */
  diskUsedPercent: number | null
  diskFreeBytes: Bytes | null
  /** Load average. @number */
  load: number
  /** Number of deployments that succeeded. */
  succeeded: number
  /** Number of deployments that failed. */
  failed: number
}

/** The figures of one minute, with its time. */
export interface MachineMinute extends MachineFacts {
  /** Start of the row. */
  at: Instant
}

/** The figures of a day. Minutes in which the server did not run are missing. */
export interface MachineHistory {
  /** Minutes per row. */
  stepMinutes: number
  /** The newest possible minute. */
  to: Instant
  items: MachineMinute[]
}

/** The number of deployments that began on each day. */
export interface Heatmap {
  days: number
  /** One cell per day, oldest first. Days begin at midnight UTC. */
  cells: Array<{ date: string; count: number; failed: number }>
}

/** The results of the deployments of each day. */
export interface SuccessRates {
  days: number
  /** One point per day, like the heatmap. The rate is a percentage, or null if no deployment finished on that day. */
  points: Array<{
    date: string
    success: number
    failed: number
    /** @number */
    rate: number | null
  }>
}

/** The disk space that the data directory and the targets use (decisions §7), in bytes. */
export interface StorageUsage {
  /**
   * The data directory. `bytes` is the sum of the totals; the other figures are those of its file system, null if
   * unknown.
   */
  home: {
    path: string
    bytes: Bytes
    freeBytes: Bytes | null
    totalBytes: Bytes | null
    /** @number */
    percentUsed: number | null
  }
  totals: StorageTotals
  projects: ProjectUsage[]
}

/** `logs` includes outputs and manifests. An archive with several names (a rollback's) is counted once. */
interface StorageTotals {
  archives: Bytes
  logs: Bytes
  tmp: Bytes
  database: Bytes
}

/** The disk space of one project. */
export interface ProjectUsage {
  projectId: string
  archiveCount: number
  archiveBytes: Bytes
  /** Size of the archives if each were whole: those of uploads of changes share contents. */
  wholeArchiveBytes: Bytes
  logBytes: Bytes
  /** Size of the target; null if it is missing, or too large to be measured during a request. */
  deployPathBytes: Bytes | null
}

/** A file without a record. */
export interface FoundBytes {
  name: string
  bytes: Bytes
}

/** The result of cleaning up the data directory. */
export interface Cleaned {
  dryRun: boolean
  archives: Array<{ deployId: string; projectId: string; bytes: Bytes }>
  temporaryFiles: FoundBytes[]
  /**
   * Deployment files without a record that were removed, or would be. Empty unless the request asks for their removal.
   */
  unrecordedFiles: FoundBytes[]
  /** Deployment files without a record that stay: they may be all that is left of a lost database. */
  unrecordedLeft: FoundBytes[]
  /** The freed space. It is less than the sum if a removed file has another name that stays. */
  freedBytes: Bytes
}

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

/**
 * The application of a project, as the project's page shows it (§2.12, §4.11). `found` is null if its state is unknown,
 * because PM2 cannot be asked.
 */
export type Pm2Binding =
  | { bound: false; message: string }
  | { bound: true; found: false; name: string }
  | { bound: true; found: null; name: string; reason: Pm2Absence; message: string }
  | Pm2Details

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

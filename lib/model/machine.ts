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

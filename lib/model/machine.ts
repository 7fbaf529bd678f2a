/** The space of a file system. A value is null if it is unknown or withheld. */
export interface DiskFigures {
  freeBytes: number | null
  totalBytes: number | null
  percentUsed: number | null
}

/** The memory of the machine, in bytes. */
export interface MemoryFigures {
  totalBytes: number
  /** The free pages, without caches. */
  freeBytes: number
  /** The memory that programs could still get: it includes caches that the system can drop. */
  availableBytes: number
  usedBytes: number
  percentUsed: number
}

/** The limits of this process's control group (cgroup v2), and its use. */
export interface ContainerFigures {
  /** Null if there is no limit. */
  memoryLimitBytes: number | null
  /** Used memory without file caches that the kernel can drop, like `docker stats`. */
  memoryUsedBytes: number | null
  /** Number of cores, possibly fractional, for example 1.5. Null if there is no limit. */
  cpuLimit: number | null
}

/** The resources that the machine and this process use now (§2.11). */
export interface ResourceSnapshot {
  collectedAt: string
  host: {
    hostname: string
    platform: string
    arch: string
    cpuModel: string
    cpuCount: number
    loadAvg: number[]
    uptimeSec: number
  }
  /** Percentage of all cores together. */
  cpu: { percent: number }
  memory: MemoryFigures
  /** The file system of the data directory. */
  disk: DiskFigures
  process: {
    pid: number
    runtime: string
    runtimeVersion: string
    uptimeSec: number
    /** Percentage of one core. */
    cpuPercent: number
    memoryRssBytes: number
    memoryHeapUsedBytes: number
  }
  /** The limits of the container, in addition to the machine's figures; null if nothing limits this process. */
  container: ContainerFigures | null
}

/** The figures of the machine and the server in one minute, and the number of deployments that finished in it. */
export interface MachineFacts {
  /** Percentage of all cores together, on average. */
  cpuPercent: number
  /** Percentage of one core, on average. */
  processCpuPercent: number
  memoryUsedBytes: number
  memoryTotalBytes: number
  memoryRssBytes: number
  /** The file system of the data directory; null if unknown. */
  diskUsedPercent: number | null
  diskFreeBytes: number | null
  /** The load average of the last minute. */
  load: number
  succeeded: number
  failed: number
}

/** The figures of one minute, with its time. */
export interface MachineMinute extends MachineFacts {
  /** The start of the minute, or of the first of several minutes that were merged. */
  at: string
}

/** The figures of a day. Minutes in which the server did not run are missing. */
export interface MachineHistory {
  stepMinutes: number
  /** The newest possible minute. */
  to: string
  items: MachineMinute[]
}

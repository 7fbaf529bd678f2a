/** Null: not known, or not told. */
export interface DiskFigures {
  freeBytes: number | null
  totalBytes: number | null
  percentUsed: number | null
}

/** Of the machine. */
export interface MemoryFigures {
  totalBytes: number
  /** The raw free pages. */
  freeBytes: number
  /** What programs could still get: the system gives up caches for them. */
  availableBytes: number
  usedBytes: number
  percentUsed: number
}

/** The limits this process lives under, where its control group sets one (cgroup v2). */
export interface ContainerFigures {
  /** Null: no limit. */
  memoryLimitBytes: number | null
  /** Without file caches that the kernel can drop, as `docker stats` counts. */
  memoryUsedBytes: number | null
  /** Cores, in parts: 1.5. Null: no limit. */
  cpuLimit: number | null
}

/** What the machine and this process use now (§2.11). */
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
  /** Of all cores together. */
  cpu: { percent: number }
  memory: MemoryFigures
  /** Where the data directory lies. */
  disk: DiskFigures
  process: {
    pid: number
    runtime: string
    runtimeVersion: string
    uptimeSec: number
    /** Of one core. */
    cpuPercent: number
    memoryRssBytes: number
    memoryHeapUsedBytes: number
  }
  /** Beside the machine's figures, not in their place; null where nothing limits this process. */
  container: ContainerFigures | null
}

/** What the machine and the server used in one minute, and the deployments that ended in it. */
export interface MachineFacts {
  /** Of all cores together, on average. */
  cpuPercent: number
  /** Of one core, on average. */
  processCpuPercent: number
  memoryUsedBytes: number
  memoryTotalBytes: number
  memoryRssBytes: number
  /** Where the data directory lies; null: not known. */
  diskUsedPercent: number | null
  diskFreeBytes: number | null
  /** Average of the last minute. */
  load: number
  succeeded: number
  failed: number
}

export interface MachineMinute extends MachineFacts {
  /** The start of the minute, or of the first of several that were put together. */
  at: string
}

/** A day of the machine. A minute in which the server did not run is not there. */
export interface MachineHistory {
  stepMinutes: number
  /** The newest minute that there can be. */
  to: string
  items: MachineMinute[]
}

/* Schemas of the health of the server, the machine and its applications. */
import type { ClusterHealth, ClusterHub, ClusterStatus } from '../../../model/cluster.js'
import type {
  ExpiringCertificate,
  FleetHealth,
  HealthDetail,
  HealthReport,
  ServerStatus,
  UnfinishedTarget
} from '../../../model/health.js'
import type {
  ContainerFigures,
  DiskFigures,
  MachineHistory,
  MachineMinute,
  MemoryFigures,
  ResourceSnapshot
} from '../../../model/machine.js'
import type { Pm2App, Pm2Apps, Pm2Availability, Pm2Binding, Pm2Details } from '../../../model/pm2.js'
import {
  anyOf,
  boolean,
  constant,
  described,
  instant,
  nullableInstant,
  integer,
  list,
  named,
  nullable,
  number,
  oneOf,
  optional,
  record,
  text
} from '../schema.js'
import { bytes, deployId, message, nullableBytes, nullableText, projectId, statuses } from './common.js'

/** The version and the counts of the server. */
export const serverStatus = named(
  'ServerStatus',
  record<ServerStatus>({
    version: text('1.0.0'),
    uptime: text('3h 4m'),
    projectCount: integer(3),
    deploymentCount: integer(120),
    successCount: integer(118),
    failedCount: integer(2),
    successRate: described('Percentage of the finished deployments. 0 if none has finished', number(98.3)),
    switchesUsers: described(
      'Whether the server can run the work of a project as another user (`runAs`)',
      boolean(true)
    )
  })
)

const clusterRole = described(
  '`alone`: it hears of no leader, so its reads may be old and nothing can be changed.',
  oneOf(['leader', 'follower', 'alone'], 'follower')
)
const staleSeconds = described('How old a read of this hub may be.', integer(0))

/** The health of the server. */
export const healthReport = named(
  'Health',
  record<HealthReport>({
    status: described(
      '`starting` until the server has an admin token and has recovered from an interrupted run. `cut_off`: this hub cannot follow its cluster; it still answers reads',
      oneOf(['ok', 'starting', 'unhealthy', 'cut_off'])
    ),
    uptime: number(11045, { description: 'Seconds since the start of the server' }),
    version: text('1.0.0'),
    cluster: optional(
      record<ClusterHealth>({
        role: clusterRole,
        staleSeconds,
        reason: optional(described('Why the hub cannot follow or lead; absent if it can.', text('log_older')))
      })
    )
  })
)

const disk = named(
  'Disk',
  record<DiskFigures>({ freeBytes: nullableBytes, totalBytes: nullableBytes, percentUsed: nullable(number(41.5)) })
)

const hubFields = { name: text('h1'), url: text('https://h1.example.com:5431') }
const clusterHub = record<ClusterHub>(hubFields)

/** The state of a cluster. */
export const clusterStatus = named(
  'ClusterStatus',
  record<ClusterStatus>({
    name: text('svc'),
    hub: described('The hub that answers.', text('h2')),
    role: clusterRole,
    leader: nullable(clusterHub),
    staleSeconds,
    sequence: described('The number of the last write that this hub has.', integer(4711)),
    problem: described(
      'Why this hub cannot follow or lead; null if it can.',
      nullable(text('etcd does not answer'), null)
    ),
    reason: described(
      'The same for programs, such as `log_older` or `hub_removed`.',
      nullable(text('log_older'), null)
    ),
    hubs: list(
      record<ClusterStatus['hubs'][number]>({
        ...hubFields,
        applied: described('The last write that the hub had when it was last seen.', integer(4711)),
        behind: described('How many writes it was behind this hub.', integer(0)),
        seenAt: nullableInstant
      })
    )
  })
)

/** A target in which a deployment was interrupted. */
export const unfinishedTarget = record<UnfinishedTarget>({
  deployId: text('dep_1a2b3c4d5e6f7a8b'),
  target: nullable(text('/srv/www/shop'))
})

/** The health of the server in detail. */
export const healthDetail = record<HealthDetail>({
  version: text('1.0.0'),
  runtime: record<HealthDetail['runtime']>({ name: text('node'), version: text('20.11.0') }),
  uptimeSec: number(11045),
  serverTime: instant,
  db: record<HealthDetail['db']>({ ok: boolean(true), latencyMs: number(0.1), path: text('/var/lib/svc/svc.db') }),
  disk,
  kiteHome: record<HealthDetail['kiteHome']>({
    path: text('/var/lib/svc'),
    writable: boolean(true),
    tmpWritable: boolean(true)
  }),
  deploy: record<HealthDetail['deploy']>({
    last5: list(
      record<HealthDetail['deploy']['last5'][number]>({
        id: deployId,
        projectId,
        projectName: text('Shop'),
        status: oneOf(statuses, 'success'),
        startTime: instant,
        duration: nullable(text('1.2s'))
      })
    ),
    successRate: described('Share of the finished ones, 0 to 1. Null if none has finished', nullable(number(0.8)))
  }),
  hostNamesChecked: optional(boolean(true)),
  revertsPending: optional(
    described('Deployments whose earlier files could not be put back yet', list(text('dep_1a2b3c4d5e6f7a8b')))
  ),
  unfinishedTargets: optional(
    described(
      'Targets in which a deployment was interrupted, and which could not be finished or put back yet',
      list(unfinishedTarget)
    )
  ),
  certificates: optional(
    described(
      'Certificates in use that expire within 14 days or have expired',
      list(
        record<ExpiringCertificate>({
          name: described('What it is, as the first words of a sentence', text('The certificate "/etc/svc/cert.pem"')),
          expiresAt: instant,
          cure: described('What to do, as a sentence', text('Renew it: the hub reads the file again'))
        })
      )
    )
  ),
  notifications: optional(
    described(
      'Messages that notification targets have not accepted yet',
      record<NonNullable<HealthDetail['notifications']>>({ waiting: integer(0), oldestAt: nullableInstant })
    )
  ),
  secrets: optional(
    record<NonNullable<HealthDetail['secrets']>>({
      ok: boolean(true),
      why: nullableText,
      unreadable: list(text('Shop: API_KEY'))
    })
  ),
  fleet: optional(
    record<FleetHealth>({
      nodes: integer(12),
      connected: described('Nodes whose agent is connected', integer(11)),
      outdated: described('Connected nodes whose agent has an earlier protocol. Update svc on them', integer(0)),
      shared: described('Nodes whose identity two machines use. They get no orders', integer(0)),
      going: described('Rollouts that are going on, or wait for their next wave', integer(1)),
      halted: described('Projects whose last rollout was halted', integer(0))
    })
  ),
  audit: optional(
    record<NonNullable<HealthDetail['audit']>>({
      ok: boolean(true),
      brokenSince: described('When the tree of the audit log was found damaged', nullableInstant),
      why: nullableText
    })
  ),
  cluster: optional(clusterStatus),
  memoryMB: record<HealthDetail['memoryMB']>({ rss: number(63), heapUsed: number(14) })
})

const memory = record<MemoryFigures>({
  totalBytes: bytes,
  freeBytes: bytes,
  availableBytes: bytes,
  usedBytes: bytes,
  percentUsed: number(37.5)
})

const container = record<ContainerFigures>({
  memoryLimitBytes: nullableBytes,
  memoryUsedBytes: nullableBytes,
  cpuLimit: nullable(number(1.5))
})

/** The resource usage of the machine and the server. */
export const resources = record<ResourceSnapshot>({
  collectedAt: instant,
  host: record<ResourceSnapshot['host']>({
    hostname: text('web1'),
    platform: text('linux'),
    arch: text('x64'),
    cpuModel: text('Example CPU'),
    cpuCount: integer(2),
    loadAvg: list(number(0.2)),
    uptimeSec: number(86400)
  }),
  cpu: record<ResourceSnapshot['cpu']>({ percent: number(3.5) }),
  memory,
  disk,
  process: record<ResourceSnapshot['process']>({
    pid: integer(1234),
    runtime: text('node'),
    runtimeVersion: text('20.11.0'),
    uptimeSec: number(11045),
    cpuPercent: number(0.1),
    memoryRssBytes: bytes,
    memoryHeapUsedBytes: bytes
  }),
  container: nullable(container, null)
})

/** Resource usage and deployments of the last 24 hours. */
export const machineHistory = record<MachineHistory>({
  stepMinutes: described('Minutes per row', integer(1)),
  to: instant,
  items: list(
    record<MachineMinute>({
      at: described('Start of the row', instant),
      cpuPercent: described('CPU usage of the machine in percent', number(3.5)),
      processCpuPercent: described('CPU usage of the server in percent', number(0.2)),
      memoryUsedBytes: bytes,
      memoryTotalBytes: bytes,
      memoryRssBytes: described('Memory usage of the server in bytes', bytes),
      diskUsedPercent: nullable(number(41.5)),
      diskFreeBytes: nullableBytes,
      load: described('Load average', number(0.2)),
      succeeded: described('Number of deployments that succeeded', integer(1)),
      failed: described('Number of deployments that failed', integer(0))
    })
  )
})

const pm2Fields = { name: text('shop'), pmId: integer(0), status: text('online') }

const absence = {
  reason: optional(
    described('Only if PM2 cannot be asked. `idle`: no daemon of PM2 runs', oneOf(['missing', 'idle', 'failed']))
  ),
  message: optional(text('PM2 not found on PATH or in the directories of npm. Install it with "npm install -g pm2"'))
}

/** Whether PM2 can be asked. */
export const pm2Availability = record<Pm2Availability>({ available: boolean(false), ...absence })

/** The PM2 applications. */
export const pm2Apps = record<Pm2Apps>({ apps: list(record<Pm2App>(pm2Fields)), ...absence })

/** The PM2 application of a project. */
export const pm2Binding = anyOf<Pm2Binding[]>(
  record<Pm2Details>({
    ...pm2Fields,
    bound: constant(true),
    found: constant(true),
    pid: nullable(integer(1234)),
    uptimeMs: number(60000),
    restarts: integer(0),
    unstableRestarts: integer(0),
    cpuPercent: number(0.3),
    memoryBytes: bytes,
    execMode: text('fork_mode'),
    instances: integer(1),
    errorLogPath: nullableText,
    outLogPath: nullableText,
    createdAt: nullable(integer(1_893_553_445_678))
  }) as never,
  record<{ bound: true; found: false; name: string }>({
    bound: constant(true),
    found: constant(false),
    name: text('shop')
  }) as never,
  record<{ bound: false; message: string }>({ bound: constant(false), message }) as never
)

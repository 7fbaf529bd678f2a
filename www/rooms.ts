import type { IconName } from './elements/icon.js'

/** A place of the frame. `words` is English, and said by t(). */
export interface Room {
  address: string
  words: string
  picture: IconName
  /** Pressed after `g`, it leads there. */
  key: string
  /** Not at the bottom of a phone, but behind its last button. */
  isFurther?: boolean
}

export const rooms: readonly Room[] = [
  { address: '.', words: 'Overview', picture: 'overview', key: 'o' },
  { address: 'projects', words: 'Projects', picture: 'projects', key: 'p' },
  { address: 'deployments', words: 'Deployments', picture: 'deployments', key: 'd' },
  { address: 'logs', words: 'Logs', picture: 'logs', key: 'l' },
  { address: 'terminal', words: 'Terminal', picture: 'terminal', key: 't', isFurther: true },
  { address: 'system', words: 'System', picture: 'system', key: 's', isFurther: true },
  { address: 'settings', words: 'Settings', picture: 'settings', key: ',', isFurther: true }
]

/** The screens of a room that has several, as its tabs. */
export const tabs: Readonly<Record<string, ReadonlyArray<{ address: string; words: string }>>> = {
  system: [
    { address: 'system', words: 'Health and resources' },
    { address: 'storage', words: 'Storage' },
    { address: 'audit', words: 'Audit log' }
  ],
  settings: [
    { address: 'settings', words: 'Settings' },
    { address: 'labels', words: 'Categories and tags' },
    { address: 'migration', words: 'Export and import' }
  ]
}

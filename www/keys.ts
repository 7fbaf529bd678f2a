import { rooms } from './router.js'

/** What a key asks of the frame. */
export type Wish = { kind: 'palette' } | { kind: 'help' } | { kind: 'go'; address: string } | { kind: 'search' }

/** A key as the browser tells it, or the like. */
export interface Key {
  key: string
  ctrlKey: boolean
  metaKey: boolean
  altKey: boolean
  /** The reader is writing: only keys that no text needs count. */
  isWriting: boolean
}

/** How long after `g` its second key may come. */
const secondKeyMs = 1500

/** Follows the keys that are pressed: `Ctrl-K`, `?`, `/`, and `g` with the key of a room. Pure but for its memory. */
export function createKeys(): (key: Key, atMs: number) => Wish | null {
  let wentMs = -Infinity
  return ({ key, ctrlKey, metaKey, altKey, isWriting }, atMs) => {
    if ((ctrlKey || metaKey) && !altKey && key.toLowerCase() === 'k') return { kind: 'palette' }
    if (isWriting || ctrlKey || metaKey || altKey) return null
    const isSecond = atMs - wentMs < secondKeyMs
    wentMs = -Infinity
    if (isSecond) {
      const room = rooms.find(room => room.key === key)
      return room === undefined ? null : { kind: 'go', address: room.address }
    }
    if (key === 'g') wentMs = atMs
    if (key === '?') return { kind: 'help' }
    if (key === '/') return { kind: 'search' }
    return null
  }
}

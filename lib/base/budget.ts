import type { Refusal } from './errors.js'

/** What one piece of work holds of a budget. */
export interface Claim {
  /** Takes more. Throws the refusal of the budget, and then takes nothing. */
  add(amount: number): void
  /** Gives back an amount, or all that is left. */
  release(amount?: number): void
}

/** Who holds something: a key of each kind, for example the caller, or the node and the caller. */
export type Keys<K extends string> = Readonly<Record<K, string>>

/**
 * A number of bytes, or of anything else that can be counted, that all work shares. Each key of a kind (a caller) may
 * hold a part of it, so that one leaves room for the others.
 */
export interface Budget<K extends string = 'caller'> {
  /** Takes an amount. Throws the refusal of the budget. */
  claim(keys: Keys<K>, amount: number): Claim
  /** Takes an amount. Returns null if there is no room. */
  tryClaim(keys: Keys<K>, amount: number): Claim | null
  /** Takes an amount while `use` runs. Rejects with the refusal of the budget. */
  during<T>(keys: Keys<K>, amount: number, use: () => Promise<T>): Promise<T>
  /** The amount that is held, by a key or in all. */
  held(kind?: K, key?: string): number
}

/** Limits of a budget. */
export interface BudgetLimits<K extends string = 'caller'> {
  /** Maximum amount in all. */
  all: number
  /** Maximum amount of one key of each kind. */
  each: Readonly<Record<K, number>>
}

/** Options of a budget. */
export interface BudgetOptions<K extends string> extends BudgetLimits<K> {
  /** Creates the refusal: a key of a kind holds too much, or all together do. */
  refuse(over: K | 'all'): Refusal
}

/** Creates a budget of which nothing is held. */
export function createBudget<K extends string>({ all, each, refuse }: BudgetOptions<K>): Budget<K> {
  const kinds = Object.keys(each) as K[]
  const heldBy = new Map<string, number>()
  let held = 0

  const nameOf = (kind: K, key: string): string => `${kind} ${key}`

  /** Returns the kind of the limit that would be exceeded, and takes nothing then. */
  function take(keys: Keys<K>, amount: number): K | 'all' | null {
    const over = kinds.find(kind => (heldBy.get(nameOf(kind, keys[kind])) ?? 0) + amount > each[kind])
    if (over !== undefined) return over
    if (held + amount > all) return 'all'
    change(keys, amount)
    return null
  }

  function change(keys: Keys<K>, amount: number): void {
    held += amount
    for (const kind of kinds) {
      const name = nameOf(kind, keys[kind])
      const sum = (heldBy.get(name) ?? 0) + amount
      if (sum === 0) heldBy.delete(name)
      else heldBy.set(name, sum)
    }
  }

  function taken(keys: Keys<K>, amount: number): Claim {
    let left = amount
    return {
      add(more) {
        const over = take(keys, more)
        if (over !== null) throw refuse(over)
        left += more
      },
      release(given = left) {
        const back = Math.min(given, left)
        left -= back
        if (back > 0) change(keys, -back)
      }
    }
  }

  function claim(keys: Keys<K>, amount: number): Claim {
    const over = take(keys, amount)
    if (over !== null) throw refuse(over)
    return taken(keys, amount)
  }

  return {
    claim,
    tryClaim: (keys, amount) => (take(keys, amount) === null ? taken(keys, amount) : null),
    async during(keys, amount, use) {
      const { release } = claim(keys, amount)
      try {
        return await use()
      } finally {
        release()
      }
    },
    held: (kind, key = '') => (kind === undefined ? held : (heldBy.get(nameOf(kind, key)) ?? 0))
  }
}

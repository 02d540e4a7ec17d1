// What a page shows while the server is away: what it showed last, and that it is away, however often is asked again meanwhile. A query that has
// nothing begins anew whenever it is asked: without this a page would say by turns that it loads, that the server is away, and what there was before.
import { useRef } from "react";
import { ApiError } from "../api/client";

interface Asked<T> {
  data: T | undefined;
  error: unknown;
  isPending: boolean;
  /// What is there is what was there before.
  isPlaceholderData?: boolean;
}

export interface Shown<T> {
  data: T | undefined;
  error: unknown;
  isPending: boolean;
  /// It is what was shown before something else was asked for.
  isOld: boolean;
}

/// Whether no server answers. Whatever it answers is news, and stands for itself.
function isAway(error: unknown): boolean {
  return error instanceof ApiError && error.status === 0;
}

/// What is shown after this was.
export function shownNext<T>(last: Pick<Shown<T>, "data" | "error"> | undefined, now: Asked<T>): Shown<T> {
  const isAsking = now.isPending || now.isPlaceholderData === true;
  const error = now.error ?? (isAsking && isAway(last?.error) ? last?.error : null);
  const data = now.data ?? (isAway(error) ? last?.data : undefined);
  return { data, error, isPending: data === undefined && !error, isOld: data !== undefined && (now.isPlaceholderData === true || now.data === undefined) };
}

export function useShown<Query extends Asked<unknown>>(asked: Query): Shown<NonNullable<Query["data"]>> {
  const last = useRef<Shown<NonNullable<Query["data"]>>>(undefined);
  last.current = shownNext(last.current, asked as Asked<NonNullable<Query["data"]>>);
  return last.current;
}

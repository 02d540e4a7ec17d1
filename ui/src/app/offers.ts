// What can be done with what a page shows, for whoever asks from somewhere else: the palette. A page offers it for as long as it is open.
import { useEffect } from "react";

export interface Offer {
  label: string;
  act: () => void;
}

let offered: Offer[] = [];

export function offers(): Offer[] {
  return offered;
}

export function useOffers(all: Offer[]) {
  useEffect(() => {
    offered = all;
    return () => {
      offered = [];
    };
  });
}
